/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Object caches: named caches of objects of one size, with constructors, exact accounting and
 * shrink. malloc is left alone. The manual pages are made from the comments below.
 *
 * Unless a function says otherwise, any thread may call it, a signal handler may not, and what is
 * a bug of the caller is reported on standard error; then the process aborts, or goes on as if
 * the call was not made where SLABYARD_ON_ERROR=report says so.
 */
#ifndef SLABYARD_H
#define SLABYARD_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define SLABYARD_MALLOC_ __attribute__((malloc, warn_unused_result))
#define SLABYARD_CHECK_ __attribute__((warn_unused_result))
#else
#define SLABYARD_MALLOC_
#define SLABYARD_CHECK_
#endif

/* A cache. */
struct slabyard_cache;
/* A prefilled sheaf. */
struct slabyard_sheaf;
/* A reserve. */
struct slabyard_mempool;

/* Flags of a cache. Objects are aligned to cache lines. */
#define SLABYARD_HWCACHE_ALIGN 0x1u
/* The cache shares no slabs with equal ones. */
#define SLABYARD_NO_MERGE 0x2u
/* Its objects can be given back on request. */
#define SLABYARD_RECLAIM_ACCOUNT 0x4u
/* The memory of a freed object stays an object of this cache while readers may look at it. */
#define SLABYARD_TYPESAFE_BY_RCU 0x8u
/* The process aborts if the cache cannot be made. */
#define SLABYARD_PANIC 0x10000u

/* Debugging of a cache, as the kernel has it: each call takes the slow path then. Consistency checks
 * at each call; red zones around each object; poison in free ones; the last allocation and free with
 * their stacks; each call printed; failures by the rule of SLABYARD_FAILSLAB. */
#define SLABYARD_CONSISTENCY_CHECKS 0x01u
#define SLABYARD_RED_ZONE 0x02u
#define SLABYARD_POISON 0x04u
#define SLABYARD_STORE_USER 0x08u
#define SLABYARD_TRACE 0x10u
#define SLABYARD_FAILSLAB 0x20u

/* Most caches of a process, kmalloc's not among them, and most objects in a full sheaf: a cache beyond
 * them is not made. */
#define SLABYARD_MOST_CACHES 4025
#define SLABYARD_MOST_SHEAF_OBJECTS 1022

/* Where 0 stands for what is usual, this stands for 0. */
#define SLABYARD_NONE (-1)

/* What a cache is made for; 0 is what is usual. */
struct slabyard_cache_args {
	size_t bytes;                 /* of this structure: SLABYARD_CACHE_ARGS sets it */
	size_t align;                 /* of an object, a power of two up to 16384; usually 8 */
	void (*ctor)(void *object);   /* makes an object, once, as its slab begins */
	void (*dtor)(void *object);   /* ends an object, once, as its slab's pages go back */
	unsigned int flags;
	unsigned int sheaf_capacity;  /* objects in a full sheaf, up to SLABYARD_MOST_SHEAF_OBJECTS */
	int min_partial;              /* empty slabs that the cache keeps */
	int min_order;                /* a slab has 2^order pages, at least ... */
	int max_order;                /* ... and at most */
	unsigned int debug;           /* SLABYARD_RED_ZONE and others; SLABYARD_DEBUG adds to them */
	const char *engine;           /* "slub", "tiny", "slab" or "slob" */
};

/* A number, or where it is not exact its bounds, both included. */
struct slabyard_range {
	size_t low;
	size_t high;                  /* equal to low where the number is exact */
};

/* What a cache holds. A later version adds members at the end. */
struct slabyard_cache_stats {
	size_t bytes;                 /* of this structure: SLABYARD_CACHE_STATS sets it */
	char name[32];                /* with a 0 at its end */
	size_t object_size_bytes;     /* largest request that it serves */
	size_t slab_size_bytes;       /* from one object to the next */
	size_t bytes_of_slab;
	size_t objs_per_slab;
	size_t sheaf_capacity_objects; /* objects in a CPU's full sheaf or array; 0: it has none */
	size_t min_partial_slabs;     /* empty slabs that it keeps */
	struct slabyard_range slabs;
	struct slabyard_range partial_slabs;        /* with free objects, on the node's list */
	struct slabyard_range total_objects;        /* in all slabs */
	struct slabyard_range live_objects;         /* handed out and not freed */
	struct slabyard_range parked_cpu_objects;   /* free, kept by CPUs */
	struct slabyard_range parked_node_objects;  /* free, kept by the node beside slabs */
	struct slabyard_range in_transit_objects;   /* in the hands of calls that are under way */
	struct slabyard_range free_partial_objects; /* free, in slabs */
	struct slabyard_range committed_bytes;      /* of all slabs */
};

/* Begins it: struct slabyard_cache_stats stats = SLABYARD_CACHE_STATS; */
#ifdef __cplusplus
#define SLABYARD_CACHE_STATS                                                                   \
	{ sizeof(struct slabyard_cache_stats), { 0 }, 0, 0, 0, 0, 0, 0, { 0, 0 }, { 0, 0 },    \
	  { 0, 0 }, { 0, 0 }, { 0, 0 }, { 0, 0 }, { 0, 0 }, { 0, 0 }, { 0, 0 } }
#else
#define SLABYARD_CACHE_STATS { .bytes = sizeof(struct slabyard_cache_stats) }
#endif

/* Begins the arguments of a cache: struct slabyard_cache_args args = SLABYARD_CACHE_ARGS; */
#ifdef __cplusplus
#define SLABYARD_CACHE_ARGS \
	{ sizeof(struct slabyard_cache_args), 0, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL }
#else
#define SLABYARD_CACHE_ARGS { .bytes = sizeof(struct slabyard_cache_args) }
#endif

/**
 * slabyard_cache_create - make a cache of objects of one size
 * @name: by which reports, `slabyard list` and others show it: 1 to 31 bytes without spaces, and of no other cache
 * @size: bytes of an object, 1 to 32768
 * @args: what else it is made for, begun with SLABYARD_CACHE_ARGS; NULL: what is usual
 *
 * With SLABYARD_MERGE=1 in the environment, a cache without constructor, destructor and settings of its own shares the slabs of an older cache that is equal, as in the kernel: then both names are one cache, and its name is that of the older one; `slabyard list PID` and `show` name the others beside it, as long as the cache is there.
 *
 * This function takes at most 3.25 KiB of its caller's stack, and the others of caches and blocks 3 KiB, beside what a constructor takes; with debugging, or an engine that other caches do not have, more.
 *
 * Return: the cache; NULL, a message and an error in errno if there is none: EINVAL for a name, a size, an alignment, flags, orders or a sheaf_capacity that a cache cannot have, ENAMETOOLONG, EEXIST for a name that is taken, ENOMEM without memory and beyond SLABYARD_MOST_CACHES, EINTR in a signal handler that interrupted the allocator.
 */
struct slabyard_cache *slabyard_cache_create(const char *name, size_t size,
					     const struct slabyard_cache_args *args) SLABYARD_CHECK_;

/**
 * slabyard_cache_destroy - end a cache
 * @cache: the cache, or NULL
 *
 * No other thread allocates from the cache meanwhile, and nobody uses it afterwards. An alias ends alone.
 *
 * Return: 0; EBUSY and a message with their number if objects remain, of which prefilled sheaves may hold some: the cache stays as it is; EINTR in a signal handler that interrupted the allocator.
 */
int slabyard_cache_destroy(struct slabyard_cache *cache);

/**
 * slabyard_cache_shrink - give back what a cache does not need
 * @cache: the cache
 *
 * What CPUs and the node keep of free objects returns to the slabs, and empty slabs end.
 *
 * Return: 0 if no slab is left, 1 if some are, -1 in a signal handler that interrupted the allocator.
 */
int slabyard_cache_shrink(struct slabyard_cache *cache);

/**
 * slabyard_cache_name - the name of a cache
 * @cache: the cache
 *
 * Return: the name, which stays as long as the cache.
 */
const char *slabyard_cache_name(const struct slabyard_cache *cache);

/**
 * slabyard_cache_size - bytes of a cache's objects
 * @cache: the cache
 *
 * Return: the size that it was made with; of equal caches that share slabs, the largest.
 */
size_t slabyard_cache_size(const struct slabyard_cache *cache);

/**
 * slabyard_cache_of - the cache of an object
 * @object: any address
 *
 * Return: the cache in whose slab the address lies, those of slabyard_kmalloc included (kmalloc-64 and others); NULL for larger blocks and for what is not of this allocator.
 */
struct slabyard_cache *slabyard_cache_of(const void *object);

/**
 * slabyard_cache_alloc - allocate an object
 * @cache: the cache
 *
 * A signal handler may call it, unless the program has CPUs told apart by private slots (SLABYARD_MODE=slots).
 *
 * Return: the object, as the constructor made it or as it was when it was freed; NULL and ENOMEM without memory.
 */
void *slabyard_cache_alloc(struct slabyard_cache *cache) SLABYARD_MALLOC_;

/**
 * slabyard_cache_zalloc - allocate an object of zeros
 * @cache: a cache without a constructor; of another it is a bug of the caller
 *
 * Return: the object; NULL and ENOMEM without memory.
 */
void *slabyard_cache_zalloc(struct slabyard_cache *cache) SLABYARD_MALLOC_;

/**
 * slabyard_cache_alloc_node - allocate an object near a memory node
 * @cache: the cache
 * @node: the node, or -1
 *
 * The node is a hint: without memory there, the object is another node's. This version of the library has one node, as most machines have, and any hint leads there.
 *
 * Return: as slabyard_cache_alloc().
 */
void *slabyard_cache_alloc_node(struct slabyard_cache *cache, int node) SLABYARD_MALLOC_;

/**
 * slabyard_cache_free - free an object
 * @cache: the cache that it is of; another one is a bug of the caller, and no cache gets the object then
 * @object: the object; NULL: nothing is done
 */
void slabyard_cache_free(struct slabyard_cache *cache, void *object);

/**
 * slabyard_cache_alloc_bulk - allocate many objects, or none
 * @cache: the cache
 * @nr: how many
 * @objects: gets them; NULL each without memory
 *
 * Return: @nr; 0 and ENOMEM without memory.
 */
size_t slabyard_cache_alloc_bulk(struct slabyard_cache *cache, size_t nr, void **objects) SLABYARD_CHECK_;

/**
 * slabyard_cache_free_bulk - free many objects
 * @cache: the cache that they are of; NULL: each goes to its own
 * @nr: how many
 * @objects: the objects; NULL among them is passed over
 *
 * An object of another cache is reported, and the others are freed.
 */
void slabyard_cache_free_bulk(struct slabyard_cache *cache, size_t nr, void *const *objects);

/**
 * slabyard_cache_for_each_live - call a function with each object that is allocated
 * @cache: the cache
 * @each: the function; it makes no call of this library
 * @with: what it gets as well
 *
 * Calls of other threads that need more than their CPU's sheaf wait meanwhile.
 *
 * Return: 0; 1 if free objects may have been among them, because other threads' private slots cannot be stopped or an object was freed twice; -1 and EAGAIN in a signal handler.
 */
int slabyard_cache_for_each_live(struct slabyard_cache *cache,
				 void (*each)(void *object, void *with), void *with);

/**
 * slabyard_cache_stats_get - count what a cache holds
 * @cache: the cache
 * @stats: gets it, begun with SLABYARD_CACHE_STATS
 *
 * Any thread may call it at any time, a signal handler as well: it takes no lock and no memory, stops nobody, and looks at a few words for each CPU. While no other thread uses the cache each number is exact; else a range has the number of some moment of the call. Objects that wait for readers, and those in prefilled sheaves, are live. `slabyard list PID` shows the same numbers from outside.
 *
 * Return: 0; -1 and EINVAL for a structure that was not begun so; -1 and ENOENT for a cache that is being destroyed.
 */
int slabyard_cache_stats_get(const struct slabyard_cache *cache, struct slabyard_cache_stats *stats);

/**
 * slabyard_stats_for_each - call a function with what each cache holds
 * @each: the function, which may call this library; it returns 0 to go on
 * @with: what it gets as well
 *
 * The caches of slabyard_kmalloc that have no slab are left out. A cache that is made or destroyed meanwhile may be there or not.
 *
 * Return: 0; what @each returned that was not 0, and ended the walk.
 */
int slabyard_stats_for_each(int (*each)(const struct slabyard_cache_stats *stats, void *with),
			    void *with);

/**
 * slabyard_stats_json - the text of `slabyard list PID --json`, from inside
 * @write: takes a piece of the text, of at most 256 bytes, without a 0 at its end; it returns 0 to go on
 * @with: what it gets as well
 *
 * The keys are those of the command, of which some are left out that need a stop or another process; a number that is not exact is [low, high].
 *
 * Return: 0; what @write returned that was not 0, and ended the text.
 */
int slabyard_stats_json(int (*write)(const char *text, size_t bytes, void *with), void *with);

/**
 * slabyard_sheaf_prefill - set objects apart against a lack of memory
 * @cache: the cache
 * @nr: how many
 *
 * One thread at a time uses a sheaf. Its objects count as allocated.
 *
 * Return: the sheaf; NULL and ENOMEM without memory.
 */
struct slabyard_sheaf *slabyard_sheaf_prefill(struct slabyard_cache *cache, size_t nr) SLABYARD_CHECK_;

/**
 * slabyard_sheaf_alloc - allocate from a prefilled sheaf
 * @sheaf: the sheaf
 *
 * It takes no lock and no memory.
 *
 * Return: an object, which slabyard_cache_free() frees; NULL only if the sheaf has none left.
 */
void *slabyard_sheaf_alloc(struct slabyard_sheaf *sheaf);

/**
 * slabyard_sheaf_refill - fill a prefilled sheaf again
 * @sheaf: the sheaf
 * @nr: how many objects it has afterwards, at least
 *
 * Return: 0; -1 and ENOMEM without memory: it has what it had, or more.
 */
int slabyard_sheaf_refill(struct slabyard_sheaf *sheaf, size_t nr) SLABYARD_CHECK_;

/**
 * slabyard_sheaf_size - how many objects a prefilled sheaf has
 * @sheaf: the sheaf
 *
 * Return: the number.
 */
size_t slabyard_sheaf_size(const struct slabyard_sheaf *sheaf);

/**
 * slabyard_sheaf_return - free a prefilled sheaf and the objects in it
 * @sheaf: the sheaf, or NULL
 */
void slabyard_sheaf_return(struct slabyard_sheaf *sheaf);

/* What a request of 0 bytes gets: no block, and each function below takes it. */
#define SLABYARD_ZERO_SIZE_PTR ((void *)16)

/**
 * slabyard_kmalloc - allocate a block of any size
 * @size: bytes
 *
 * Return: the block, aligned to 16 bytes; SLABYARD_ZERO_SIZE_PTR for 0 bytes; NULL and ENOMEM without memory, and for more than PTRDIFF_MAX bytes.
 */
void *slabyard_kmalloc(size_t size) SLABYARD_CHECK_;

/**
 * slabyard_kzalloc - allocate a block of zeros
 * @size: bytes
 *
 * Return: as slabyard_kmalloc().
 */
void *slabyard_kzalloc(size_t size) SLABYARD_CHECK_;

/**
 * slabyard_kmalloc_array - allocate an array
 * @n: elements
 * @size: bytes of each
 *
 * Return: as slabyard_kmalloc(); NULL and ENOMEM if the product is too large.
 */
void *slabyard_kmalloc_array(size_t n, size_t size) SLABYARD_CHECK_;

/**
 * slabyard_kcalloc - allocate an array of zeros
 * @n: elements
 * @size: bytes of each
 *
 * Return: as slabyard_kmalloc_array().
 */
void *slabyard_kcalloc(size_t n, size_t size) SLABYARD_CHECK_;

/**
 * slabyard_krealloc - make a block larger or smaller
 * @block: the block; NULL or SLABYARD_ZERO_SIZE_PTR: a new one
 * @size: bytes; 0 frees the block
 *
 * Return: the block, which may have moved; SLABYARD_ZERO_SIZE_PTR for 0 bytes; NULL and ENOMEM without memory: the block is as it was.
 */
void *slabyard_krealloc(void *block, size_t size) SLABYARD_CHECK_;

/**
 * slabyard_krealloc_array - make an array larger or smaller
 * @block: the array
 * @n: elements
 * @size: bytes of each
 *
 * Return: as slabyard_krealloc(); NULL and ENOMEM if the product is too large.
 */
void *slabyard_krealloc_array(void *block, size_t n, size_t size) SLABYARD_CHECK_;

/**
 * slabyard_kfree - free a block, or an object of any cache
 * @block: the block; NULL and SLABYARD_ZERO_SIZE_PTR: nothing is done
 */
void slabyard_kfree(const void *block);

/**
 * slabyard_kfree_sensitive - overwrite a block with zeros and free it
 * @block: as for slabyard_kfree()
 */
void slabyard_kfree_sensitive(void *block);

/**
 * slabyard_ksize - how many bytes a block has room for
 * @block: the block
 *
 * Return: the bytes, all of which the program may use; 0 for NULL and SLABYARD_ZERO_SIZE_PTR.
 */
size_t slabyard_ksize(const void *block);

/**
 * slabyard_kmalloc_size_roundup - how many bytes a block of a size would have room for
 * @size: bytes
 *
 * Return: what slabyard_ksize() says of such a block, at most.
 */
size_t slabyard_kmalloc_size_roundup(size_t size);

/**
 * slabyard_kvmalloc - allocate a block that may be large
 * @size: bytes
 *
 * Return: as slabyard_kmalloc(), which serves any size here.
 */
void *slabyard_kvmalloc(size_t size) SLABYARD_CHECK_;

/**
 * slabyard_kvfree - free a block that may be large
 * @block: as for slabyard_kfree()
 */
void slabyard_kvfree(const void *block);

/**
 * slabyard_kmemdup - copy bytes into a new block
 * @from: the bytes
 * @size: how many
 *
 * Return: as slabyard_kmalloc().
 */
void *slabyard_kmemdup(const void *from, size_t size) SLABYARD_CHECK_;

/**
 * slabyard_kstrdup - copy a string into a new block
 * @text: the string, or NULL
 *
 * Return: the copy; NULL for NULL; NULL and ENOMEM without memory.
 */
char *slabyard_kstrdup(const char *text) SLABYARD_CHECK_;

/**
 * slabyard_kstrndup - copy the begin of a string into a new block
 * @text: the string, or NULL
 * @max: most bytes, without the 0 at the end that the copy gets
 *
 * Return: as slabyard_kstrdup().
 */
char *slabyard_kstrndup(const char *text, size_t max) SLABYARD_CHECK_;

/**
 * slabyard_rcu_read_lock - open a section of a reader
 *
 * Until it ends, nothing is freed that a function whose name ends in _rcu got after it was opened. Sections nest. A section takes no lock.
 *
 * In a section, the memory of an object of a cache with SLABYARD_TYPESAFE_BY_RCU stays an object of this cache, but the object may be freed and handed out again at any time: a reader takes a reference to it in a way that fails where there is none, and then asks again whether it is the object that it looked for.
 */
void slabyard_rcu_read_lock(void);

/**
 * slabyard_rcu_read_unlock - end the section that this thread opened last
 */
void slabyard_rcu_read_unlock(void);

/**
 * slabyard_synchronize_rcu - wait for readers
 *
 * Return: 0 as all sections have ended that were open; -1 and EDEADLK in a section, which is a bug of the caller; -1 and EINTR in a signal handler that interrupted the allocator.
 */
int slabyard_synchronize_rcu(void);

/**
 * slabyard_cache_free_rcu - free an object after readers
 * @cache: the cache that it is of
 * @object: the object; NULL: nothing is done
 *
 * It does not wait, unless more waits for readers than the allocator keeps.
 *
 * Return: 0; -1 and an error as of slabyard_synchronize_rcu(): the object is as before.
 */
int slabyard_cache_free_rcu(struct slabyard_cache *cache, void *object);

/**
 * slabyard_kfree_rcu - free a block, or an object of any cache, after readers
 * @block: as for slabyard_kfree()
 *
 * Return: as slabyard_cache_free_rcu().
 */
int slabyard_kfree_rcu(void *block);

/**
 * slabyard_rcu_barrier - wait until all is freed that waits for readers
 *
 * Return: as slabyard_synchronize_rcu().
 */
int slabyard_rcu_barrier(void);

/**
 * slabyard_mempool_create - make a reserve of elements
 * @min_nr: elements of the reserve, 1 or more
 * @alloc: allocates an element, or returns NULL
 * @free_element: frees one
 * @with: what both get as well
 *
 * slabyard_mempool_alloc_slab() and slabyard_mempool_free_slab() make a pool of a cache's objects, where @with is the cache; slabyard_mempool_kmalloc() and slabyard_mempool_kfree() one of blocks, where @with is the number of bytes.
 *
 * Return: the pool; NULL without memory for the reserve.
 */
struct slabyard_mempool *slabyard_mempool_create(int min_nr, void *(*alloc)(void *with),
						 void (*free_element)(void *element, void *with),
						 void *with) SLABYARD_CHECK_;

/**
 * slabyard_mempool_destroy - free a reserve
 * @pool: the pool, or NULL; nobody uses it, and its elements are freed
 */
void slabyard_mempool_destroy(struct slabyard_mempool *pool);

/**
 * slabyard_mempool_alloc - allocate an element, at all costs
 * @pool: the pool
 *
 * From the allocator; from the reserve where that has no memory; else it waits until another thread frees an element.
 *
 * Return: the element, never NULL.
 */
void *slabyard_mempool_alloc(struct slabyard_mempool *pool) SLABYARD_CHECK_;

/**
 * slabyard_mempool_try_alloc - allocate an element without waiting
 * @pool: the pool
 *
 * Return: the element; NULL if allocator and reserve have none.
 */
void *slabyard_mempool_try_alloc(struct slabyard_mempool *pool) SLABYARD_CHECK_;

/**
 * slabyard_mempool_free - free an element
 * @element: the element; NULL: nothing is done
 * @pool: the pool, whose reserve gets it if it lacks one
 */
void slabyard_mempool_free(void *element, struct slabyard_mempool *pool);

/**
 * slabyard_mempool_reserve - how many elements are in reserve
 * @pool: the pool
 *
 * Return: the number.
 */
int slabyard_mempool_reserve(struct slabyard_mempool *pool);

/**
 * slabyard_mempool_alloc_slab - allocate an element from a cache
 * @cache: the cache
 *
 * Return: the object, or NULL.
 */
void *slabyard_mempool_alloc_slab(void *cache);

/**
 * slabyard_mempool_free_slab - free an element to a cache
 * @element: the object
 * @cache: the cache
 */
void slabyard_mempool_free_slab(void *element, void *cache);

/**
 * slabyard_mempool_kmalloc - allocate an element as a block
 * @bytes: its bytes, as a pointer
 *
 * Return: the block, or NULL.
 */
void *slabyard_mempool_kmalloc(void *bytes);

/**
 * slabyard_mempool_kfree - free an element that is a block
 * @element: the block
 * @bytes: not used
 */
void slabyard_mempool_kfree(void *element, void *bytes);

/* What a scan returns that can do nothing now. */
#define SLABYARD_SHRINK_STOP (~0UL)
/* What an object costs to make again, where nobody says otherwise. */
#define SLABYARD_DEFAULT_SEEKS 2

/**
 * slabyard_shrinker_register - say what the program can give back
 * @name: for reports; it stays as long as the shrinker
 * @count: how many objects could be freed now
 * @scan: looks at so many objects and frees what may go; returns how many, or SLABYARD_SHRINK_STOP
 * @with: what both get as well
 * @seeks: what an object costs to make again: SLABYARD_DEFAULT_SEEKS
 * @batch: objects of a scan; 0: the usual number
 *
 * Return: its number; -1 and an error in errno if there are 16 already.
 */
int slabyard_shrinker_register(const char *name, unsigned long (*count)(void *with),
			       unsigned long (*scan)(void *with, unsigned long nr), void *with,
			       unsigned int seeks, long batch);

/**
 * slabyard_shrinker_unregister - take back what was said
 * @number: the shrinker's
 *
 * Return: 0; 1 if a call of it is under way, which goes on; -1 and EINVAL if there is none.
 */
int slabyard_shrinker_unregister(int number);

/**
 * slabyard_relieve - ask all shrinkers once, and give memory back to the system
 *
 * Return: objects that they freed; -1 if another thread does the same.
 */
long slabyard_relieve(void);

/**
 * slabyard_trim - give back all free memory
 *
 * That of all caches and of kmalloc here; malloc's own is malloc_trim()'s, and `slabyard shrink PID` reaches both.
 *
 * Return: 1 if memory went back to the system, else 0.
 */
int slabyard_trim(void);

#ifdef __cplusplus
}
#endif

#endif /* SLABYARD_H */
