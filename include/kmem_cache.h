/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The kernel's names for slabyard.h, so that kernel-style code that is built in user space (its
 * tests, a library's) compiles unchanged: include it in place of <linux/slab.h> and
 * <linux/mempool.h>. Written from the kernel's public documentation of these functions.
 *
 * What differs:
 *  - A request may always sleep, so that GFP flags choose nothing but zeros (__GFP_ZERO) and, with
 *    __GFP_NOFAIL, an abort in place of NULL.
 *  - kmem_cache_destroy() with objects that remain says so on standard error; the cache stays.
 *  - kfree_rcu() and others wait for sections of slabyard_rcu_read_lock(). A program that has readers
 *    of another library (liburcu) defines KMEM_CACHE_NO_RCU before it includes this file.
 * Define KMEM_CACHE_NO_TYPES if the program has gfp_t, and so for any name below its own macro.
 */
#ifndef KMEM_CACHE_H
#define KMEM_CACHE_H

#include <slabyard.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef KMEM_CACHE_NO_TYPES
typedef unsigned int gfp_t;
typedef unsigned int slab_flags_t;
#endif

#ifndef NUMA_NO_NODE
#define NUMA_NO_NODE (-1)
#endif

/* GFP flags: the bits are our own, the names the kernel's. */
#ifndef GFP_KERNEL
#define __GFP_DMA 0x01u
#define __GFP_HIGHMEM 0x02u
#define __GFP_MOVABLE 0x08u
#define __GFP_RECLAIMABLE 0x10u
#define __GFP_HIGH 0x20u
#define __GFP_IO 0x40u
#define __GFP_FS 0x80u
#define __GFP_ZERO 0x100u
#define __GFP_DIRECT_RECLAIM 0x400u
#define __GFP_KSWAPD_RECLAIM 0x800u
#define __GFP_RECLAIM (__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)
#define __GFP_NOWARN 0x2000u
#define __GFP_RETRY_MAYFAIL 0x4000u
#define __GFP_NOFAIL 0x8000u
#define __GFP_NORETRY 0x10000u
#define __GFP_MEMALLOC 0x20000u
#define __GFP_COMP 0x40000u
#define __GFP_NOMEMALLOC 0x80000u
#define __GFP_HARDWALL 0x100000u
#define __GFP_THISNODE 0x200000u
#define __GFP_ACCOUNT 0x400000u
#define __GFP_BITS_SHIFT 26
#define __GFP_BITS_MASK ((1u << __GFP_BITS_SHIFT) - 1)
#define GFP_ATOMIC (__GFP_HIGH | __GFP_KSWAPD_RECLAIM)
#define GFP_KERNEL (__GFP_RECLAIM | __GFP_IO | __GFP_FS)
#define GFP_KERNEL_ACCOUNT (GFP_KERNEL | __GFP_ACCOUNT)
#define GFP_NOWAIT (__GFP_KSWAPD_RECLAIM | __GFP_NOWARN)
#define GFP_NOIO __GFP_RECLAIM
#define GFP_NOFS (__GFP_RECLAIM | __GFP_IO)
#define GFP_USER (GFP_KERNEL | __GFP_HARDWALL)
#define GFP_HIGHUSER (GFP_USER | __GFP_HIGHMEM)
#define GFP_DMA __GFP_DMA
#define GFP_ZONEMASK 0x0fu
#endif

static inline int gfpflags_allow_blocking(const gfp_t flags)
{
	return (flags & __GFP_DIRECT_RECLAIM) != 0;
}

/* Flags of a cache. Those that need nothing here are 0, or are kept apart from slabyard.h's. */
#define SLAB_HWCACHE_ALIGN SLABYARD_HWCACHE_ALIGN
#define SLAB_NO_MERGE SLABYARD_NO_MERGE
#define SLAB_RECLAIM_ACCOUNT SLABYARD_RECLAIM_ACCOUNT
#define SLAB_TEMPORARY SLAB_RECLAIM_ACCOUNT
#define SLAB_TYPESAFE_BY_RCU SLABYARD_TYPESAFE_BY_RCU
#define SLAB_PANIC SLABYARD_PANIC
#define SLAB_CACHE_DMA 0u
#define SLAB_CACHE_DMA32 0u
#define SLAB_ACCOUNT 0u
#define SLAB_MEM_SPREAD 0u
#define SLAB_NOLEAKTRACE 0u
#define SLAB_NO_USER_FLAGS 0u
#define SLAB_SKIP_KFENCE 0u
#define SLAB_KASAN 0u
#define SLAB_FAILSLAB (SLABYARD_FAILSLAB << 24)
#define SLAB_DEBUG_OBJECTS 0u
/* Debugging of a cache: in the high half, as slabyard.h has it in a member of its own. */
#define SLAB_CONSISTENCY_CHECKS (SLABYARD_CONSISTENCY_CHECKS << 24)
#define SLAB_RED_ZONE (SLABYARD_RED_ZONE << 24)
#define SLAB_POISON (SLABYARD_POISON << 24)
#define SLAB_STORE_USER (SLABYARD_STORE_USER << 24)
#define SLAB_TRACE (SLABYARD_TRACE << 24)

#define ZERO_SIZE_PTR SLABYARD_ZERO_SIZE_PTR
#define ZERO_OR_NULL_PTR(x) ((uintptr_t)(x) <= (uintptr_t)ZERO_SIZE_PTR)

/* A cache is slabyard.h's, under the kernel's name. */
#define kmem_cache slabyard_cache
#define slab_sheaf slabyard_sheaf

struct kmem_cache_args {
	unsigned int align;
	unsigned int useroffset;
	unsigned int usersize;
	unsigned int freeptr_offset;
	unsigned char use_freeptr_offset;
	void (*ctor)(void *);
	unsigned int sheaf_capacity;
};

static inline void *kmem_given_(void *object, gfp_t flags)
{
	if (object == NULL && (flags & __GFP_NOFAIL))
		abort();
	return object;
}

static inline struct kmem_cache *kmem_cache_create_args_(const char *name, size_t size,
							 const struct kmem_cache_args *args,
							 slab_flags_t flags)
{
	struct slabyard_cache_args all = SLABYARD_CACHE_ARGS;
	all.flags = flags & 0xffffffu;
	all.debug = flags >> 24;
	if (args != NULL) {
		all.align = args->align;
		all.ctor = args->ctor;
		all.sheaf_capacity = args->sheaf_capacity;
	}
	return slabyard_cache_create(name, size, &all);
}

#define __kmem_cache_create_args(name, size, args, flags) \
	kmem_cache_create_args_(name, size, args, flags)

/* kmem_cache_create(name, size, align, flags, ctor): the older form. */
static inline struct kmem_cache *kmem_cache_create_5_(const char *name, size_t size, size_t align,
						      slab_flags_t flags, void (*ctor)(void *))
{
	struct slabyard_cache_args all = SLABYARD_CACHE_ARGS;
	all.flags = flags & 0xffffffu;
	all.debug = flags >> 24;
	all.align = align;
	all.ctor = ctor;
	return slabyard_cache_create(name, size, &all);
}

/* kmem_cache_create(name, size, &args, flags): the form since 6.12. By the number of arguments. */
#define KMEM_CREATE_PICK_(a, b, c, d, e, f, ...) f
#define kmem_cache_create(...)                                                  \
	KMEM_CREATE_PICK_(__VA_ARGS__, kmem_cache_create_5_,                    \
			  kmem_cache_create_args_, kmem_cache_create_none_, 0)  \
	(__VA_ARGS__)

static inline struct kmem_cache *kmem_cache_create_usercopy(const char *name, unsigned int size,
							    unsigned int align, slab_flags_t flags,
							    unsigned int useroffset,
							    unsigned int usersize,
							    void (*ctor)(void *))
{
	(void)useroffset;
	(void)usersize;
	return kmem_cache_create_5_(name, size, align, flags, ctor);
}

/* The alignment of a structure, without operators that C99 and C++98 have not. */
#define KMEM_ALIGN_(type) offsetof(struct { char c; type member; }, member)
#if defined(__GNUC__) || defined(__clang__)
#undef KMEM_ALIGN_
#define KMEM_ALIGN_(type) __alignof__(type)
#endif

#define KMEM_CACHE(structure, flags)                                              \
	kmem_cache_create_5_(#structure, sizeof(struct structure),                \
			     KMEM_ALIGN_(struct structure), flags, NULL)
#define KMEM_CACHE_USERCOPY(structure, flags, field) KMEM_CACHE(structure, flags)

static inline void kmem_cache_destroy(struct kmem_cache *cache)
{
	(void)slabyard_cache_destroy(cache);
}

static inline int kmem_cache_shrink(struct kmem_cache *cache)
{
	return slabyard_cache_shrink(cache);
}

static inline unsigned int kmem_cache_size(struct kmem_cache *cache)
{
	return (unsigned int)slabyard_cache_size(cache);
}

static inline void *kmem_cache_alloc(struct kmem_cache *cache, gfp_t flags)
{
	return kmem_given_(flags & __GFP_ZERO ? slabyard_cache_zalloc(cache)
					      : slabyard_cache_alloc(cache), flags);
}

static inline void *kmem_cache_zalloc(struct kmem_cache *cache, gfp_t flags)
{
	return kmem_cache_alloc(cache, flags | __GFP_ZERO);
}

static inline void *kmem_cache_alloc_node(struct kmem_cache *cache, gfp_t flags, int node)
{
	if (flags & __GFP_ZERO)
		return kmem_cache_alloc(cache, flags);
	return kmem_given_(slabyard_cache_alloc_node(cache, node), flags);
}

struct list_lru;

static inline void *kmem_cache_alloc_lru(struct kmem_cache *cache, struct list_lru *lru, gfp_t flags)
{
	(void)lru;
	return kmem_cache_alloc(cache, flags);
}

static inline void kmem_cache_free(struct kmem_cache *cache, void *object)
{
	slabyard_cache_free(cache, object);
}

static inline int kmem_cache_alloc_bulk(struct kmem_cache *cache, gfp_t flags, size_t nr, void **objects)
{
	size_t got = slabyard_cache_alloc_bulk(cache, nr, objects);
	if (got == nr && (flags & __GFP_ZERO))
		for (size_t i = 0; i < nr; i++)
			memset(objects[i], 0, slabyard_cache_size(cache));
	if (got < nr)
		(void)kmem_given_(NULL, flags);
	return (int)got;
}

static inline void kmem_cache_free_bulk(struct kmem_cache *cache, size_t nr, void **objects)
{
	slabyard_cache_free_bulk(cache, nr, objects);
}

static inline void kfree_bulk(size_t nr, void **objects)
{
	slabyard_cache_free_bulk(NULL, nr, objects);
}

static inline struct slab_sheaf *kmem_cache_prefill_sheaf(struct kmem_cache *cache, gfp_t flags,
							  unsigned int size)
{
	return (struct slab_sheaf *)kmem_given_(slabyard_sheaf_prefill(cache, size), flags);
}

static inline int kmem_cache_refill_sheaf(struct kmem_cache *cache, gfp_t flags,
					  struct slab_sheaf **sheaf, unsigned int size)
{
	(void)cache;
	(void)flags;
	return slabyard_sheaf_refill(*sheaf, size) == 0 ? 0 : -12; /* -ENOMEM */
}

static inline void *kmem_cache_alloc_from_sheaf(struct kmem_cache *cache, gfp_t flags,
						struct slab_sheaf *sheaf)
{
	void *object = slabyard_sheaf_alloc(sheaf);
	if (object != NULL && (flags & __GFP_ZERO))
		memset(object, 0, slabyard_cache_size(cache));
	return object;
}

static inline void kmem_cache_return_sheaf(struct kmem_cache *cache, gfp_t flags,
					   struct slab_sheaf *sheaf)
{
	(void)cache;
	(void)flags;
	slabyard_sheaf_return(sheaf);
}

static inline unsigned int kmem_cache_sheaf_size(struct slab_sheaf *sheaf)
{
	return (unsigned int)slabyard_sheaf_size(sheaf);
}

/* Blocks of any size. */
static inline void *kmalloc(size_t size, gfp_t flags)
{
	return kmem_given_(flags & __GFP_ZERO ? slabyard_kzalloc(size) : slabyard_kmalloc(size), flags);
}

static inline void *kzalloc(size_t size, gfp_t flags)
{
	return kmalloc(size, flags | __GFP_ZERO);
}

static inline void *kmalloc_array(size_t n, size_t size, gfp_t flags)
{
	return kmem_given_(flags & __GFP_ZERO ? slabyard_kcalloc(n, size)
					      : slabyard_kmalloc_array(n, size), flags);
}

static inline void *kcalloc(size_t n, size_t size, gfp_t flags)
{
	return kmalloc_array(n, size, flags | __GFP_ZERO);
}

/* With __GFP_ZERO, what a block gained reads as zeros. */
static inline void *krealloc(const void *block, size_t size, gfp_t flags)
{
	size_t before = slabyard_ksize(block);
	void *new_block = slabyard_krealloc((void *)(uintptr_t)block, size);
	if ((flags & __GFP_ZERO) && !ZERO_OR_NULL_PTR(new_block) && size > before)
		memset((char *)new_block + before, 0, size - before);
	return kmem_given_(new_block, flags);
}

static inline void *krealloc_array(void *block, size_t n, size_t size, gfp_t flags)
{
	if (size != 0 && n > SIZE_MAX / size)
		return kmem_given_(NULL, flags);
	return krealloc(block, n * size, flags);
}

static inline void kfree(const void *block)
{
	slabyard_kfree(block);
}

static inline void kfree_sensitive(const void *block)
{
	slabyard_kfree_sensitive((void *)(uintptr_t)block);
}

static inline size_t ksize(const void *block)
{
	return slabyard_ksize(block);
}

static inline size_t kmalloc_size_roundup(size_t size)
{
	return slabyard_kmalloc_size_roundup(size);
}

static inline void *kmemdup(const void *from, size_t size, gfp_t flags)
{
	return kmem_given_(slabyard_kmemdup(from, size), flags);
}

static inline char *kstrdup(const char *text, gfp_t flags)
{
	return (char *)(text == NULL ? NULL : kmem_given_(slabyard_kstrdup(text), flags));
}

static inline char *kstrndup(const char *text, size_t max, gfp_t flags)
{
	return (char *)(text == NULL ? NULL : kmem_given_(slabyard_kstrndup(text, max), flags));
}

#define kzfree(block) kfree_sensitive(block)
#define kmalloc_node(size, flags, node) ((void)(node), kmalloc(size, flags))
#define kzalloc_node(size, flags, node) ((void)(node), kzalloc(size, flags))
#define kmalloc_array_node(n, size, flags, node) ((void)(node), kmalloc_array(n, size, flags))
#define kcalloc_node(n, size, flags, node) ((void)(node), kcalloc(n, size, flags))
#define kmalloc_track_caller(size, flags) kmalloc(size, flags)
#define kvmalloc(size, flags) kmalloc(size, flags)
#define kvzalloc(size, flags) kzalloc(size, flags)
#define kvmalloc_node(size, flags, node) kmalloc_node(size, flags, node)
#define kvzalloc_node(size, flags, node) kzalloc_node(size, flags, node)
#define kvmalloc_array(n, size, flags) kmalloc_array(n, size, flags)
#define kvcalloc(n, size, flags) kcalloc(n, size, flags)
#define kvrealloc(block, size, flags) krealloc(block, size, flags)
#define kvmemdup(from, size, flags) kmemdup(from, size, flags)
#define kvfree(block) kfree(block)
#define kvfree_sensitive(block, size) ((void)(size), kfree_sensitive(block))
#define vmalloc(size) kmalloc(size, GFP_KERNEL)
#define vzalloc(size) kzalloc(size, GFP_KERNEL)
#define vfree(block) kfree(block)

#ifndef KMEM_CACHE_NO_RCU
/* kfree_rcu(pointer, field) and kfree_rcu(pointer): the field is not needed. */
#define KMEM_RCU_PICK_(a, ...) a
#define kfree_rcu(...) ((void)slabyard_kfree_rcu((void *)(KMEM_RCU_PICK_(__VA_ARGS__, 0))))
#define kvfree_rcu(...) kfree_rcu(__VA_ARGS__)
#define kfree_rcu_mightsleep(pointer) kfree_rcu(pointer)
#define kvfree_rcu_mightsleep(pointer) kfree_rcu(pointer)
#define kvfree_rcu_barrier() ((void)slabyard_rcu_barrier())
#define rcu_read_lock() slabyard_rcu_read_lock()
#define rcu_read_unlock() slabyard_rcu_read_unlock()
#define synchronize_rcu() ((void)slabyard_synchronize_rcu())
#define rcu_barrier() ((void)slabyard_rcu_barrier())
#endif

/* Reserves. */
typedef void *(mempool_alloc_t)(gfp_t flags, void *pool_data);
typedef void (mempool_free_t)(void *element, void *pool_data);

typedef struct mempool {
	struct slabyard_mempool *pool;
	mempool_alloc_t *alloc;
	mempool_free_t *free_element;
	void *pool_data;
	int min_nr;
} mempool_t;

static inline void *mempool_call_alloc_(void *pool)
{
	mempool_t *it = (mempool_t *)pool;
	return it->alloc(GFP_KERNEL, it->pool_data);
}

static inline void mempool_call_free_(void *element, void *pool)
{
	mempool_t *it = (mempool_t *)pool;
	it->free_element(element, it->pool_data);
}

static inline void *mempool_alloc_slab(gfp_t flags, void *pool_data)
{
	return kmem_cache_alloc((struct kmem_cache *)pool_data, flags);
}

static inline void mempool_free_slab(void *element, void *pool_data)
{
	kmem_cache_free((struct kmem_cache *)pool_data, element);
}

static inline void *mempool_kmalloc(gfp_t flags, void *pool_data)
{
	return kmalloc((size_t)(uintptr_t)pool_data, flags);
}

static inline void mempool_kfree(void *element, void *pool_data)
{
	(void)pool_data;
	kfree(element);
}

static inline int mempool_init(mempool_t *pool, int min_nr, mempool_alloc_t *alloc_fn,
			       mempool_free_t *free_fn, void *pool_data)
{
	pool->alloc = alloc_fn;
	pool->free_element = free_fn;
	pool->pool_data = pool_data;
	pool->min_nr = min_nr;
	pool->pool = slabyard_mempool_create(min_nr, mempool_call_alloc_, mempool_call_free_, pool);
	return pool->pool == NULL ? -12 : 0; /* -ENOMEM */
}

static inline void mempool_exit(mempool_t *pool)
{
	slabyard_mempool_destroy(pool->pool);
	pool->pool = NULL;
}

static inline mempool_t *mempool_create(int min_nr, mempool_alloc_t *alloc_fn,
					mempool_free_t *free_fn, void *pool_data)
{
	mempool_t *pool = (mempool_t *)kzalloc(sizeof(mempool_t), GFP_KERNEL);
	if (pool != NULL && mempool_init(pool, min_nr, alloc_fn, free_fn, pool_data) != 0) {
		kfree(pool);
		pool = NULL;
	}
	return pool;
}

static inline void mempool_destroy(mempool_t *pool)
{
	if (pool != NULL) {
		mempool_exit(pool);
		kfree(pool);
	}
}

static inline void *mempool_alloc(mempool_t *pool, gfp_t flags)
{
	void *element = gfpflags_allow_blocking(flags) ? slabyard_mempool_alloc(pool->pool)
						       : slabyard_mempool_try_alloc(pool->pool);
	return element;
}

static inline void mempool_free(void *element, mempool_t *pool)
{
	slabyard_mempool_free(element, pool->pool);
}

static inline int mempool_is_saturated(mempool_t *pool)
{
	return slabyard_mempool_reserve(pool->pool) >= pool->min_nr;
}

#define mempool_create_slab_pool(min_nr, cache) \
	mempool_create(min_nr, mempool_alloc_slab, mempool_free_slab, cache)
#define mempool_create_kmalloc_pool(min_nr, size) \
	mempool_create(min_nr, mempool_kmalloc, mempool_kfree, (void *)(uintptr_t)(size))
#define mempool_init_slab_pool(pool, min_nr, cache) \
	mempool_init(pool, min_nr, mempool_alloc_slab, mempool_free_slab, cache)
#define mempool_init_kmalloc_pool(pool, min_nr, size) \
	mempool_init(pool, min_nr, mempool_kmalloc, mempool_kfree, (void *)(uintptr_t)(size))

#ifdef __cplusplus
}
#endif

#endif /* KMEM_CACHE_H */
