/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the kernel's user-space tests ask of an allocator beside the kernel's functions: counts, and
 * requests that fail on purpose. Every object is one of kmem_cache.h's.
 */
#define KERNEL_TESTS_UNCOUNTED
#include <linux/slab.h>
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

int nr_allocated;
int preempt_count;
int test_verbose;
int kmalloc_verbose;

struct counts {
	struct kmem_cache *cache;
	/* So many requests that may not sleep are served yet. */
	unsigned int without_sleep;
	unsigned long allocated, ever_allocated;
};

#define MOST_CACHES 256
static struct counts counts[MOST_CACHES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long served;

/* With the lock. */
static struct counts *counts_of(struct kmem_cache *cache)
{
	for (int i = 0; i < MOST_CACHES; i++) {
		if (counts[i].cache == NULL)
			counts[i].cache = cache;
		if (counts[i].cache == cache)
			return &counts[i];
	}
	assert(!"more caches than these tests have");
	return NULL;
}

static bool may_alloc(struct kmem_cache *cache, gfp_t flags, size_t nr)
{
	bool may = true;
	pthread_mutex_lock(&lock);
	if (!(flags & __GFP_DIRECT_RECLAIM)) {
		struct counts *of = counts_of(cache);
		may = of->without_sleep >= nr;
		if (may)
			of->without_sleep -= nr;
	}
	pthread_mutex_unlock(&lock);
	return may;
}

static void count(struct kmem_cache *cache, long nr)
{
	pthread_mutex_lock(&lock);
	struct counts *of = counts_of(cache);
	of->allocated += nr;
	of->ever_allocated += nr > 0 ? nr : 0;
	served += nr > 0 ? nr : 0;
	pthread_mutex_unlock(&lock);
	__atomic_fetch_add(&nr_allocated, (int)nr, __ATOMIC_RELAXED);
}

void *tested_alloc(struct kmem_cache *cache, gfp_t flags)
{
	if (!may_alloc(cache, flags, 1))
		return NULL;
	void *object = kmem_cache_alloc(cache, flags);
	if (object != NULL)
		count(cache, 1);
#ifdef KERNEL_TESTS_PLANTED
	/* The planted bug: now and then an object that is handed out already. */
	static void *last;
	if (served % 500 == 499 && last != NULL)
		return last;
	last = object;
#endif
	return object;
}

void tested_free(struct kmem_cache *cache, void *object)
{
	assert(object != NULL);
	count(cache, -1);
	kmem_cache_free(cache, object);
}

int tested_alloc_bulk(struct kmem_cache *cache, gfp_t flags, size_t nr, void **objects)
{
	if (!may_alloc(cache, flags, nr))
		return 0;
	int got = kmem_cache_alloc_bulk(cache, flags, nr, objects);
	count(cache, got);
	return got;
}

void tested_free_bulk(struct kmem_cache *cache, size_t nr, void **objects)
{
	count(cache, -(long)nr);
	kmem_cache_free_bulk(cache, nr, objects);
}

void *tested_kmalloc(size_t size, gfp_t flags)
{
	return flags & __GFP_DIRECT_RECLAIM ? kmalloc(size, flags) : NULL;
}

/* The tests declare these themselves. */
void kmem_cache_set_non_kernel(struct kmem_cache *cache, unsigned int nr)
{
	pthread_mutex_lock(&lock);
	counts_of(cache)->without_sleep = nr;
	pthread_mutex_unlock(&lock);
}

unsigned long kmem_cache_nr_allocated(struct kmem_cache *cache)
{
	pthread_mutex_lock(&lock);
	unsigned long nr = counts_of(cache)->allocated;
	pthread_mutex_unlock(&lock);
	return nr;
}

unsigned long kmem_cache_get_alloc(struct kmem_cache *cache)
{
	return kmem_cache_nr_allocated(cache) * kmem_cache_size(cache);
}

unsigned long kmem_cache_nr_tallocated(struct kmem_cache *cache)
{
	pthread_mutex_lock(&lock);
	unsigned long nr = counts_of(cache)->ever_allocated;
	pthread_mutex_unlock(&lock);
	return nr;
}

void kmem_cache_zero_nr_tallocated(struct kmem_cache *cache)
{
	pthread_mutex_lock(&lock);
	counts_of(cache)->ever_allocated = 0;
	pthread_mutex_unlock(&lock);
}

/* The test of the bulk calls that the tests begin with. */
void test_kmem_cache_bulk(void)
{
	void *objects[12];
	struct kmem_cache *cache = kmem_cache_create("bulk", 256, 256, SLAB_PANIC, NULL);
	for (int round = 0; round < 100; round++) {
		assert(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 12, objects) == 12);
		for (int i = 0; i < 12; i++) {
			assert((uintptr_t)objects[i] % 256 == 0);
			memset(objects[i], i, 256);
		}
		for (int i = 0; i < 12; i++)
			assert(*(unsigned char *)objects[i] == i);
		kmem_cache_free_bulk(cache, 12, objects);
	}
	kmem_cache_destroy(cache);
}

__attribute__((destructor)) static void say(void)
{
	fprintf(stderr, "%lu objects served by object caches\n", served);
}
