/* Parks objects of a cache and blocks of malloc, and goes on with few calls of both until the end of
 * its input. */
#include "check.h"
#include <poll.h>
#include <stdlib.h>

enum { NR = 20000 };

static void *objects[NR], *blocks[NR];

int main(void)
{
	struct slabyard_cache *cache = slabyard_cache_create("connection", 200, NULL);
	struct pollfd input = { 0, POLLIN, 0 };
	for (int i = 0; i < NR; i++) {
		CHECK((objects[i] = slabyard_cache_alloc(cache)) != NULL);
		CHECK((blocks[i] = malloc(200)) != NULL);
	}
	/* The last of a slab stays in a sheaf. */
	for (int i = 0; i < NR; i++) {
		slabyard_cache_free(cache, objects[i]);
		free(blocks[i]);
	}
	puts("ready");
	fflush(stdout);
	while (poll(&input, 1, 1) == 0) {
		/* A compiler leaves a pair out of which it sees both calls. */
		void *volatile object = slabyard_cache_alloc(cache);
		void *volatile block = malloc(200);
		slabyard_cache_free(cache, object);
		free(block);
	}
	return PASSED;
}
