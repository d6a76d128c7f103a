/* The limits that the header names: each is said, with what to do, and the process goes on. */
#include "check.h"
#include <errno.h>

int main(void)
{
	static struct slabyard_cache *all[SLABYARD_MOST_CACHES];
	struct slabyard_cache_args args = SLABYARD_CACHE_ARGS;
	char name[32];
	args.sheaf_capacity = SLABYARD_MOST_SHEAF_OBJECTS + 1;
	errno = 0;
	CHECK(slabyard_cache_create("wide", 64, &args) == NULL && errno == EINVAL);
	args.sheaf_capacity = SLABYARD_MOST_SHEAF_OBJECTS;
	all[0] = slabyard_cache_create("wide", 64, &args);
	CHECK(all[0] != NULL);
	for (int i = 1; i < SLABYARD_MOST_CACHES; i++) {
		snprintf(name, sizeof name, "cache-%d", i);
		CHECK((all[i] = slabyard_cache_create(name, 64, NULL)) != NULL);
	}
	errno = 0;
	CHECK(slabyard_cache_create("more", 64, NULL) == NULL && errno == ENOMEM);
	CHECK(slabyard_cache_destroy(all[7]) == 0);
	CHECK((all[7] = slabyard_cache_create("more", 64, NULL)) != NULL);
	slabyard_cache_free(all[7], slabyard_cache_alloc(all[7]));
	return PASSED;
}
