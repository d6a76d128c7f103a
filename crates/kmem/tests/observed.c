/* Has objects of two caches, blocks of kmalloc, and some of malloc's, and waits for the end of its
 * input. Its arguments are further names of the first cache, which merges with them. */
#include "check.h"
#include <stdlib.h>

int main(int argc, char **argv)
{
	struct slabyard_cache *one = slabyard_cache_create("connection", 100, NULL);
	struct slabyard_cache *two = slabyard_cache_create("session", 700, NULL);
	for (int i = 1; i < argc; i++)
		CHECK(slabyard_cache_create(argv[i], 100, NULL) == one);
	void *objects[1000];
	CHECK(slabyard_cache_alloc_bulk(one, 1000, objects) == 1000);
	slabyard_cache_free_bulk(one, 100, objects);
	for (int i = 0; i < 30; i++)
		CHECK(slabyard_cache_alloc(two) != NULL);
	for (int i = 0; i < 7; i++)
		CHECK(slabyard_kmalloc(1000) != NULL);
	for (int i = 0; i < 50; i++)
		CHECK(malloc(1000) != NULL);
	puts("ready");
	fflush(stdout);
	return getchar() == EOF ? PASSED : 1;
}
