/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * <linux/slab.h> of the kernel's user-space tests, by kmem_cache.h. The tests have types, GFP flags and
 * readers of their own. What they ask beyond the kernel's functions is in slab.c: how much is
 * allocated, and that requests which may not sleep fail but for so many.
 */
#ifndef KERNEL_TESTS_SLAB_H
#define KERNEL_TESTS_SLAB_H

#include <linux/types.h>
#include <linux/gfp.h>
#include <stdbool.h>

#define KMEM_CACHE_NO_TYPES
#define KMEM_CACHE_NO_RCU
typedef unsigned int slab_flags_t;
/* The tests have this one, too. */
#define gfpflags_allow_blocking kmem_cache_allows_blocking
#include <kmem_cache.h>
#undef gfpflags_allow_blocking

extern int nr_allocated;
extern int kmalloc_verbose;

void *tested_alloc(struct kmem_cache *cache, gfp_t flags);
void tested_free(struct kmem_cache *cache, void *object);
int tested_alloc_bulk(struct kmem_cache *cache, gfp_t flags, size_t nr, void **objects);
void tested_free_bulk(struct kmem_cache *cache, size_t nr, void **objects);
void *tested_kmalloc(size_t size, gfp_t flags);

#ifndef KERNEL_TESTS_UNCOUNTED
#define kmem_cache_alloc(cache, flags) tested_alloc(cache, flags)
#define kmem_cache_zalloc(cache, flags) tested_alloc(cache, (flags) | __GFP_ZERO)
#define kmem_cache_alloc_lru(cache, lru, flags) tested_alloc(cache, flags)
#define kmem_cache_free(cache, object) tested_free(cache, object)
#define kmem_cache_alloc_bulk(cache, flags, nr, objects) tested_alloc_bulk(cache, flags, nr, objects)
#define kmem_cache_free_bulk(cache, nr, objects) tested_free_bulk(cache, nr, objects)
#define kmalloc(size, flags) tested_kmalloc(size, flags)
#define kzalloc(size, flags) tested_kmalloc(size, (flags) | __GFP_ZERO)
#endif

/* lib/maple_tree.c of 6.1 has this word, and the tests' headers do not. */
#ifndef fallthrough
#define fallthrough __attribute__((__fallthrough__))
#endif

/* The tests' slab allocator is always there. */
enum slab_state { DOWN, PARTIAL, PARTIAL_NODE, UP, FULL };
static inline bool slab_is_available(void)
{
	return true;
}

#endif
