/* Code in the kernel's style, on kmem_cache.h. */
#include "check.h"
#include <kmem_cache.h>

struct rcu_head { void *next; };

struct connection {
	long id;
	char text[100];
	struct rcu_head rcu;
};

static void make(void *object)
{
	((struct connection *)object)->id = 7;
}

static void caches_of_both_forms(void)
{
	struct kmem_cache_args args;
	memset(&args, 0, sizeof args);
	args.align = 64;
	args.ctor = make;
	struct kmem_cache *old = kmem_cache_create("old-form", sizeof(struct connection), 32,
						   SLAB_HWCACHE_ALIGN | SLAB_PANIC, make);
	struct kmem_cache *recent = kmem_cache_create("new-form", sizeof(struct connection), &args,
						      SLAB_RECLAIM_ACCOUNT | SLAB_ACCOUNT);
	struct kmem_cache *by_type = KMEM_CACHE(connection, SLAB_PANIC);
	CHECK(old != NULL && recent != NULL && by_type != NULL);
	CHECK(kmem_cache_size(by_type) == sizeof(struct connection));
	struct connection *one = (struct connection *)kmem_cache_alloc(old, GFP_KERNEL);
	struct connection *two = (struct connection *)kmem_cache_alloc_node(recent, GFP_ATOMIC, NUMA_NO_NODE);
	struct connection *three = (struct connection *)kmem_cache_zalloc(by_type, GFP_NOWAIT);
	CHECK(one->id == 7 && two->id == 7 && three->id == 0 && (uintptr_t)two % 64 == 0);
	kmem_cache_free(old, one);
	kmem_cache_free(recent, two);
	kfree_rcu(three, rcu);
	struct connection *four = (struct connection *)kmem_cache_alloc(by_type, GFP_KERNEL | __GFP_NOFAIL);
	rcu_read_lock();
	rcu_read_unlock();
	kfree_rcu(four);
	rcu_barrier();
	kvfree_rcu_barrier();
	synchronize_rcu();
	void *many[40];
	CHECK(kmem_cache_alloc_bulk(by_type, GFP_KERNEL | __GFP_ZERO, 40, many) == 40);
	CHECK(((struct connection *)many[39])->id == 0);
	kmem_cache_free_bulk(by_type, 20, many);
	kfree_bulk(20, many + 20);
	struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(by_type, GFP_KERNEL, 8);
	CHECK(kmem_cache_sheaf_size(sheaf) == 8);
	kmem_cache_free(by_type, kmem_cache_alloc_from_sheaf(by_type, GFP_NOWAIT | __GFP_ZERO, sheaf));
	CHECK(kmem_cache_refill_sheaf(by_type, GFP_KERNEL, &sheaf, 20) == 0);
	kmem_cache_return_sheaf(by_type, GFP_KERNEL, sheaf);
	CHECK(kmem_cache_shrink(by_type) == 0);
	kmem_cache_destroy(old);
	kmem_cache_destroy(recent);
	kmem_cache_destroy(by_type);
	kmem_cache_destroy(NULL);
}

static void blocks(void)
{
	char *block = (char *)kmalloc(100, GFP_KERNEL);
	CHECK(ksize(block) >= 100 && kmalloc_size_roundup(100) >= 100);
	memset(block, 1, ksize(block));
	size_t before = ksize(block);
	block = (char *)krealloc(block, 10000, GFP_KERNEL | __GFP_ZERO);
	CHECK(block[before - 1] == 1 && block[before] == 0 && block[9999] == 0);
	kfree_sensitive(block);
	int *zeros = (int *)kcalloc(10, sizeof(int), GFP_KERNEL);
	CHECK(zeros[9] == 0);
	zeros = (int *)krealloc_array(zeros, 20, sizeof(int), GFP_KERNEL);
	kfree(zeros);
	CHECK(ZERO_OR_NULL_PTR(kmalloc(0, GFP_KERNEL)) && ZERO_OR_NULL_PTR(NULL));
	CHECK(kmalloc_array(SIZE_MAX, 2, GFP_KERNEL) == NULL);
	char *text = kstrdup("text", GFP_KERNEL);
	CHECK(strcmp(text, "text") == 0);
	kfree(text);
	text = kstrndup("text", 2, GFP_KERNEL);
	CHECK(strcmp(text, "te") == 0);
	kfree(text);
	text = (char *)kmemdup("text", 5, GFP_KERNEL);
	kvfree(text);
	kvfree(kvmalloc(1 << 20, GFP_KERNEL));
	kvfree(kvzalloc(1 << 20, GFP_KERNEL));
	vfree(vmalloc(100));
}

static void reserves(void)
{
	struct kmem_cache *cache = kmem_cache_create("reserve", 64, 0, 0, NULL);
	mempool_t *pool = mempool_create_slab_pool(3, cache);
	CHECK(pool != NULL && mempool_is_saturated(pool));
	void *element = mempool_alloc(pool, GFP_KERNEL);
	CHECK(element != NULL);
	mempool_free(element, pool);
	mempool_destroy(pool);
	kmem_cache_destroy(cache);
	mempool_t inside;
	CHECK(mempool_init_kmalloc_pool(&inside, 2, 100) == 0);
	element = mempool_alloc(&inside, GFP_NOWAIT);
	CHECK(ksize(element) >= 100);
	mempool_free(element, &inside);
	mempool_exit(&inside);
}

int main(void)
{
	caches_of_both_forms();
	blocks();
	reserves();
	return PASSED;
}
