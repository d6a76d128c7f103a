/* Debugging of a cache: one fault a run, by its name; the argument `env` has it from the environment. */
#include "check.h"
#include <kmem_cache.h>

/* A block that shrinks and grows: the zone begins behind what is asked for, and what is new is zero. */
static void resized(void)
{
	unsigned char *block = (unsigned char *)kmalloc(48, GFP_KERNEL | __GFP_ZERO);
	memset(block, 0xff, 48);
	block = (unsigned char *)krealloc(block, 40, GFP_KERNEL | __GFP_ZERO);
	CHECK(ksize(block) == 40);
	for (int i = 0; i < 48; i++)
		CHECK(block[i] == (i < 40 ? 0xff : 0xcc));
	block = (unsigned char *)krealloc(block, 56, GFP_KERNEL | __GFP_ZERO);
	CHECK(ksize(block) == 56);
	for (int i = 0; i < 64; i++)
		CHECK(block[i] == (i < 40 ? 0xff : i < 56 ? 0 : 0xcc));
	block = (unsigned char *)krealloc(block, 112, GFP_KERNEL | __GFP_ZERO);
	for (int i = 0; i < 112; i++)
		CHECK(block[i] == (i < 40 ? 0xff : 0));
	kfree(block);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	if (strcmp(argv[1], "krealloc") == 0) {
		resized();
		return PASSED;
	}
	slab_flags_t flags = strcmp(argv[2], "env") == 0 ? 0
		: SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON | SLAB_STORE_USER;
	struct kmem_cache *cache = kmem_cache_create("faulty", 60, 8, flags, NULL);
	char *object = (char *)kmem_cache_alloc(cache, GFP_KERNEL);
	memset(object, 1, 60);
	if (strcmp(argv[1], "above") == 0)
		object[60] = 1;
	if (strcmp(argv[1], "below") == 0)
		object[-1] = 1;
	kmem_cache_free(cache, object);
	if (strcmp(argv[1], "twice") == 0)
		kmem_cache_free(cache, object);
	if (strcmp(argv[1], "after") == 0)
		object[50] = 2;
	kmem_cache_shrink(cache);
	void *many[2000];
	CHECK(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 2000, many) == 2000);
	kmem_cache_free_bulk(cache, 2000, many);
	kmem_cache_destroy(cache);
	return PASSED;
}
