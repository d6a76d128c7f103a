/* Equal caches are one with SLABYARD_MERGE=1 (argument 1), and two without (argument 0). */
#include "check.h"

static void make(void *object) { (void)object; }

static struct slabyard_cache *with(const char *name, size_t size, unsigned int flags,
				   void (*ctor)(void *), unsigned int capacity)
{
	struct slabyard_cache_args args = SLABYARD_CACHE_ARGS;
	args.flags = flags;
	args.ctor = ctor;
	args.sheaf_capacity = capacity;
	struct slabyard_cache *cache = slabyard_cache_create(name, size, &args);
	CHECK(cache != NULL);
	return cache;
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	int merges = argv[1][0] == '1';
	struct slabyard_cache *first = with("first", 60, 0, NULL, 0);
	/* A word larger at most, of the same accounting, without wishes of its own. */
	struct slabyard_cache *same = with("same", 64, 0, NULL, 0);
	CHECK((same == first) == merges);
	CHECK(strcmp(slabyard_cache_name(same), merges ? "first" : "same") == 0);
	CHECK(slabyard_cache_size(same) == 64);
	CHECK(with("larger", 72, 0, NULL, 0) != first);
	CHECK(with("smaller", 56, 0, NULL, 0) != first);
	CHECK(with("reclaimable", 64, SLABYARD_RECLAIM_ACCOUNT, NULL, 0) != first);
	CHECK(with("own", 64, SLABYARD_NO_MERGE, NULL, 0) != first);
	CHECK(with("typesafe", 64, SLABYARD_TYPESAFE_BY_RCU, NULL, 0) != first);
	CHECK(with("made", 64, 0, make, 0) != first);
	CHECK(with("sheaf", 64, 0, NULL, 5) != first);
	void *object = slabyard_cache_alloc(same);
	memset(object, 1, 64);
	CHECK(slabyard_cache_of(object) == same);
	/* The alias ends alone, and its objects live on in the other. */
	if (merges) {
		CHECK(slabyard_cache_destroy(same) == 0);
		slabyard_cache_free(first, object);
	} else {
		slabyard_cache_free(same, object);
		CHECK(slabyard_cache_destroy(same) == 0);
	}
	CHECK(slabyard_cache_destroy(first) == 0);
	return PASSED;
}
