/* Statistics from inside: exact at rest, within bounds while threads work, without memory of their
 * own and on little stack. With the argument `json`, prints the text of all and waits for the end of
 * its input. */
#include "check.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OBJECTS = 5000, THREADS = 3, ROUNDS = 3000, HELD = 64, MOST_STACK = 4096, STACK = 1 << 17 };

static int print(const char *text, size_t bytes, void *with)
{
	return fwrite(text, 1, bytes, (FILE *)with) == bytes ? 0 : 1;
}

static int drop(const char *text, size_t bytes, void *with)
{
	(void)text;
	*(size_t *)with += bytes;
	return 0;
}

static int stop(const char *text, size_t bytes, void *with)
{
	(void)text;
	(void)bytes;
	++*(int *)with;
	return 7;
}

static int is_exact(struct slabyard_range range, size_t n)
{
	return range.low == n && range.high == n;
}

/* Each object is in one place. */
static int adds_up(const struct slabyard_cache_stats *it)
{
	return it->live_objects.low + it->parked_cpu_objects.low + it->parked_node_objects.low +
		       it->free_partial_objects.low == it->total_objects.low;
}

struct found {
	int caches;
	size_t live;
};

static int find(const struct slabyard_cache_stats *stats, void *with)
{
	struct found *found = (struct found *)with;
	found->caches++;
	if (strcmp(stats->name, "connection") == 0)
		found->live = stats->live_objects.low;
	return 0;
}

static int stop_at_first(const struct slabyard_cache_stats *stats, void *with)
{
	(void)stats;
	++*(int *)with;
	return 3;
}

static struct slabyard_cache *busy;
static int at_work = 1;

static void *work(void *with)
{
	void *held[HELD];
	(void)with;
	for (int i = 0; i < HELD; i++)
		CHECK((held[i] = slabyard_cache_alloc(busy)) != NULL);
	for (int round = 0; __atomic_load_n(&at_work, __ATOMIC_RELAXED); round++) {
		void *more[100];
		int n = round % 100;
		for (int i = 0; i < n; i++)
			CHECK((more[i] = slabyard_cache_alloc(busy)) != NULL);
		for (int i = 0; i < n; i++)
			slabyard_cache_free(busy, more[i]);
	}
	for (int i = 0; i < HELD; i++)
		slabyard_cache_free(busy, held[i]);
	return NULL;
}

/* Between the fewest and the most objects that threads ever have. */
static void look_while_threads_work(void)
{
	pthread_t threads[THREADS];
	busy = slabyard_cache_create("busy", 64, NULL);
	CHECK(busy != NULL);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
	struct slabyard_cache_stats stats = SLABYARD_CACHE_STATS;
	do {
		usleep(100);
		CHECK(slabyard_cache_stats_get(busy, &stats) == 0);
	} while (stats.live_objects.high < THREADS * HELD);
	usleep(1000);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(slabyard_cache_stats_get(busy, &stats) == 0);
		CHECK(stats.live_objects.low <= THREADS * (HELD + 99));
		CHECK(stats.live_objects.low <= stats.live_objects.high);
		CHECK(stats.live_objects.high <= stats.total_objects.high);
	}
	__atomic_store_n(&at_work, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(slabyard_cache_stats_get(busy, &stats) == 0);
	CHECK(is_exact(stats.live_objects, 0) && adds_up(&stats));
	CHECK(slabyard_cache_destroy(busy) == 0);
}

static void *look(void *cache)
{
	struct slabyard_cache_stats stats = SLABYARD_CACHE_STATS;
	struct found found = { 0, 0 };
	size_t bytes = 0;
	CHECK(slabyard_cache_stats_get((struct slabyard_cache *)cache, &stats) == 0);
	CHECK(slabyard_stats_for_each(find, &found) == 0);
	CHECK(slabyard_stats_json(drop, &bytes) == 0 && bytes > 1000);
	return NULL;
}

/* How deep the calls go, on a stack that was painted. */
static void measure_stack(struct slabyard_cache *cache, void *(*look_at)(void *))
{
	unsigned char *stack;
	pthread_attr_t attr;
	pthread_t thread;
	size_t used = 0;
	int again;
	CHECK(posix_memalign((void **)&stack, 1 << 16, STACK) == 0);
	/* The first thread binds symbols, which is the loader's depth. */
	for (again = 0; again < 2; again++) {
		memset(stack, 0xa5, STACK);
		CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstack(&attr, stack, STACK) == 0);
		CHECK(pthread_create(&thread, &attr, look_at, cache) == 0);
		CHECK(pthread_join(thread, NULL) == 0);
	}
	while (used < STACK && stack[used] == 0xa5)
		used++;
	printf("%zu\n", STACK - used);
	free(stack);
}

static void *nothing(void *with)
{
	return with;
}

int main(int argc, char **argv)
{
	struct slabyard_cache *cache = slabyard_cache_create("connection", 100, NULL);
	struct slabyard_cache_stats stats = SLABYARD_CACHE_STATS, before;
	struct found found = { 0, 0 };
	static void *objects[OBJECTS];
	int calls = 0;
	CHECK(cache != NULL);
	CHECK(slabyard_cache_stats_get(cache, &stats) == 0);
	CHECK(strcmp(stats.name, "connection") == 0 && stats.object_size_bytes == 100);
	CHECK(is_exact(stats.slabs, 0) && is_exact(stats.live_objects, 0));
	for (int i = 0; i < OBJECTS; i++)
		CHECK((objects[i] = slabyard_cache_alloc(cache)) != NULL);
	for (int i = 0; i < OBJECTS; i += 5)
		slabyard_cache_free(cache, objects[i]);
	CHECK(slabyard_cache_stats_get(cache, &stats) == 0);
	CHECK(is_exact(stats.live_objects, OBJECTS / 5 * 4) && adds_up(&stats));
	CHECK(is_exact(stats.in_transit_objects, 0));
	CHECK(is_exact(stats.committed_bytes, stats.slabs.low * stats.bytes_of_slab));
	if (argc > 1 && strcmp(argv[1], "json") == 0) {
		CHECK(slabyard_kmalloc(1000) != NULL);
		puts("ready");
		CHECK(slabyard_stats_json(print, stdout) == 0);
		fflush(stdout);
		return getchar() == EOF ? PASSED : 1;
	}
	if (argc > 1 && strcmp(argv[1], "stack") == 0) {
		measure_stack(cache, nothing);
		measure_stack(cache, look);
		return PASSED;
	}
	/* They take nothing. */
	before = stats;
	look(cache);
	CHECK(slabyard_cache_stats_get(cache, &stats) == 0);
	CHECK(memcmp(&before, &stats, sizeof stats) == 0);
	CHECK(slabyard_stats_for_each(find, &found) == 0);
	CHECK(found.caches >= 1 && found.live == OBJECTS / 5 * 4);
	CHECK(slabyard_stats_for_each(stop_at_first, &calls) == 3 && calls == 1);
	calls = 0;
	CHECK(slabyard_stats_json(stop, &calls) == 7 && calls == 1);
	/* A structure of an older version, and of a newer one. */
	struct {
		struct slabyard_cache_stats stats;
		size_t more[4];
	} newer = { SLABYARD_CACHE_STATS, { 1, 1, 1, 1 } };
	newer.stats.bytes = sizeof newer;
	CHECK(slabyard_cache_stats_get(cache, &newer.stats) == 0);
	CHECK(newer.more[0] == 0 && newer.more[3] == 0 && newer.stats.live_objects.low == found.live);
	memset(&stats, 0x55, sizeof stats);
	stats.bytes = offsetof(struct slabyard_cache_stats, slabs);
	CHECK(slabyard_cache_stats_get(cache, &stats) == 0 && stats.slabs.low != before.slabs.low);
	look_while_threads_work();
	return PASSED;
}
