/* Containers on object caches, for `ci/objects`: ends with 17 if all objects are where they should be. */
#include <algorithm>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <slabyard.hpp>
#include <string>
#include <thread>
#include <vector>

static void expect(bool holds, int line)
{
	if (!holds) {
		std::fprintf(stderr, "line %d\n", line);
		std::exit(1);
	}
}
#define EXPECT(what) expect(what, __LINE__)

struct alignas(256) wide {
	char bytes[256];
};

/* Bounds while other threads use the cache. */
static slabyard_range live_of(slabyard_cache *cache)
{
	slabyard_cache_stats stats = SLABYARD_CACHE_STATS;
	EXPECT(slabyard_cache_stats_get(cache, &stats) == 0);
	return stats.live_objects;
}

/* Of a cache that nobody else uses. */
static std::size_t exactly_live_of(slabyard_cache *cache)
{
	slabyard_range live = live_of(cache);
	while (live.low != live.high)
		live = live_of(cache);
	return live.low;
}

static void containers()
{
	using pair = std::pair<const int, std::string>;
	std::map<int, std::string, std::less<>, slabyard::allocator<pair>> names;
	for (int i = 0; i < 1000; i++)
		names[i] = std::to_string(i);
	slabyard_cache *cache = slabyard_cache_of(&*names.begin());
	/* The node lies before its value. */
	EXPECT(cache != nullptr && std::string(slabyard_cache_name(cache)).rfind("c++-", 0) == 0);
	EXPECT(live_of(cache).high >= 1000);
	for (int i = 0; i < 1000; i += 2)
		names.erase(i);
	EXPECT(names.size() == 500 && names[501] == "501");

	std::vector<wide, slabyard::allocator<wide>> many(7);
	EXPECT(reinterpret_cast<std::uintptr_t>(many.data()) % alignof(wide) == 0);
	std::list<wide, slabyard::allocator<wide>> nodes(9);
	for (const wide &one : nodes)
		EXPECT(reinterpret_cast<std::uintptr_t>(&one) % alignof(wide) == 0);
	auto shared = std::allocate_shared<int>(slabyard::allocator<int>(), 5);
	EXPECT(*shared == 5);
	slabyard::allocator<long> longs;
	bool refused = false;
	try {
		longs.allocate(std::numeric_limits<std::size_t>::max() / 4);
	} catch (const std::bad_alloc &) {
		refused = true;
	}
	EXPECT(refused);
}

static void resources()
{
	/* A node of the list: two pointers and the value. */
	slabyard::cache_resource resource("list-nodes", 2 * sizeof(void *) + sizeof(long));
	{
		std::pmr::list<long> numbers(&resource);
		for (long i = 0; i < 300; i++)
			numbers.push_back(i);
		EXPECT(exactly_live_of(resource.cache()) == 300);
		std::pmr::vector<wide> others(3, &resource);
		EXPECT(reinterpret_cast<std::uintptr_t>(others.data()) % alignof(wide) == 0);
		EXPECT(exactly_live_of(resource.cache()) == 300);
	}
	EXPECT(exactly_live_of(resource.cache()) == 0);
	bool refused = false;
	try {
		slabyard::cache_resource twice("list-nodes", 8);
	} catch (const std::invalid_argument &) {
		refused = true;
	}
	EXPECT(refused);
}

int main()
{
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back(containers);
	for (auto &thread : threads)
		thread.join();
	resources();
	return 17;
}
