/* Requests of any size, reserves, shrinkers. */
#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

static void blocks_have_the_size_that_was_asked_for(void)
{
	const size_t sizes[] = { 1, 8, 17, 100, 1000, 4096, 30000, 32768, 32769, 100000, 3 << 20 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t size = sizes[i];
		unsigned char *block = (unsigned char *)slabyard_kmalloc(size);
		CHECK(block != NULL && (uintptr_t)block % 16 == 0);
		CHECK(slabyard_ksize(block) >= size);
		CHECK(slabyard_kmalloc_size_roundup(size) >= size);
		CHECK(slabyard_kmalloc_size_roundup(size) <= slabyard_ksize(block));
		memset(block, 0xa5, slabyard_ksize(block));
		slabyard_kfree(block);
		unsigned char *zeros = (unsigned char *)slabyard_kzalloc(size);
		for (size_t at = 0; at < size; at++)
			CHECK(zeros[at] == 0);
		memset(zeros, 0xa5, size);
		slabyard_kfree_sensitive(zeros);
		zeros = (unsigned char *)slabyard_kcalloc(size, 3);
		CHECK(zeros != NULL && zeros[3 * size - 1] == 0);
		slabyard_kvfree(zeros);
	}
	void *small = slabyard_kmalloc(60);
	CHECK(strncmp(slabyard_cache_name(slabyard_cache_of(small)), "kmalloc-", 8) == 0);
	slabyard_kfree(small);
}

static void nothing_and_too_much_are_defined(void)
{
	CHECK(slabyard_kmalloc(0) == SLABYARD_ZERO_SIZE_PTR);
	CHECK(slabyard_kzalloc(0) == SLABYARD_ZERO_SIZE_PTR);
	CHECK(slabyard_kcalloc(0, 8) == SLABYARD_ZERO_SIZE_PTR);
	CHECK(slabyard_kvmalloc(0) == SLABYARD_ZERO_SIZE_PTR);
	slabyard_kfree(SLABYARD_ZERO_SIZE_PTR);
	slabyard_kfree(NULL);
	slabyard_kvfree(NULL);
	slabyard_kfree_sensitive(NULL);
	slabyard_kfree_sensitive(SLABYARD_ZERO_SIZE_PTR);
	CHECK(slabyard_ksize(NULL) == 0 && slabyard_ksize(SLABYARD_ZERO_SIZE_PTR) == 0);
	CHECK(slabyard_kmalloc_size_roundup(0) == 0);
	CHECK(slabyard_kmalloc_size_roundup(SIZE_MAX) == SIZE_MAX);
	errno = 0;
	CHECK(slabyard_kmalloc(SIZE_MAX) == NULL && errno == ENOMEM);
	CHECK(slabyard_kmalloc((size_t)1 << 62) == NULL);
	CHECK(slabyard_kmalloc_array(SIZE_MAX / 2, 3) == NULL);
	CHECK(slabyard_kcalloc(SIZE_MAX / 2, 3) == NULL);
	char *block = (char *)slabyard_kmalloc(100);
	CHECK(slabyard_krealloc_array(block, SIZE_MAX / 2, 3) == NULL);
	CHECK(slabyard_krealloc(block, SIZE_MAX) == NULL);
	CHECK(slabyard_krealloc(block, 0) == SLABYARD_ZERO_SIZE_PTR);
}

static void a_block_keeps_its_bytes_as_it_grows(void)
{
	char *block = (char *)slabyard_krealloc(NULL, 10);
	size_t old = 10;
	memset(block, 1, 10);
	for (size_t size = 20; size < 5 << 20; size = size * 3 / 2) {
		block = (char *)slabyard_krealloc(block, size);
		CHECK(block != NULL);
		for (size_t at = 0; at < old; at++)
			CHECK(block[at] == 1);
		memset(block, 1, size);
		old = size;
	}
	block = (char *)slabyard_krealloc(block, 5);
	CHECK(block[4] == 1);
	slabyard_kfree(block);
	block = (char *)slabyard_krealloc(SLABYARD_ZERO_SIZE_PTR, 5);
	CHECK(block != NULL);
	slabyard_kfree(block);
}

static void copies_are_equal(void)
{
	char *copy = slabyard_kstrdup("a string");
	CHECK(strcmp(copy, "a string") == 0);
	slabyard_kfree(copy);
	copy = slabyard_kstrndup("a string", 3);
	CHECK(strcmp(copy, "a s") == 0);
	slabyard_kfree(copy);
	copy = slabyard_kstrndup("ab", 100);
	CHECK(strcmp(copy, "ab") == 0);
	slabyard_kfree(copy);
	CHECK(slabyard_kstrdup(NULL) == NULL && slabyard_kstrndup(NULL, 1) == NULL);
	copy = (char *)slabyard_kmemdup("bytes", 6);
	CHECK(memcmp(copy, "bytes", 6) == 0);
	slabyard_kfree(copy);
}

static int left;

static void *rare(void *with) { return left-- > 0 ? slabyard_kmalloc((size_t)with) : NULL; }

static void *give(void *pool)
{
	usleep(50000);
	slabyard_mempool_free(slabyard_kmalloc(100), (struct slabyard_mempool *)pool);
	return NULL;
}

static void a_reserve_never_fails(void)
{
	struct slabyard_mempool *pool;
	void *elements[8];
	pthread_t thread;
	left = 3;
	CHECK(slabyard_mempool_create(4, rare, slabyard_mempool_kfree, (void *)100) == NULL);
	CHECK(slabyard_mempool_create(0, rare, slabyard_mempool_kfree, NULL) == NULL && errno == EINVAL);
	CHECK(slabyard_mempool_create(1, NULL, slabyard_mempool_kfree, NULL) == NULL);
	left = 4 + 2;
	pool = slabyard_mempool_create(4, rare, slabyard_mempool_kfree, (void *)100);
	CHECK(pool != NULL && slabyard_mempool_reserve(pool) == 4);
	for (int i = 0; i < 6; i++)
		CHECK((elements[i] = slabyard_mempool_alloc(pool)) != NULL);
	CHECK(slabyard_mempool_reserve(pool) == 0);
	CHECK(slabyard_mempool_try_alloc(pool) == NULL);
	CHECK(pthread_create(&thread, NULL, give, pool) == 0);
	elements[6] = slabyard_mempool_alloc(pool);
	CHECK(elements[6] != NULL && pthread_join(thread, NULL) == 0);
	for (int i = 0; i < 7; i++)
		slabyard_mempool_free(elements[i], pool);
	slabyard_mempool_free(NULL, pool);
	CHECK(slabyard_mempool_reserve(pool) == 4);
	slabyard_mempool_destroy(pool);
	slabyard_mempool_destroy(NULL);

	struct slabyard_cache *cache = slabyard_cache_create("pooled", 64, NULL);
	pool = slabyard_mempool_create(2, slabyard_mempool_alloc_slab, slabyard_mempool_free_slab, cache);
	elements[0] = slabyard_mempool_alloc(pool);
	CHECK(slabyard_cache_of(elements[0]) == cache);
	slabyard_mempool_free(elements[0], pool);
	slabyard_mempool_destroy(pool);
	CHECK(slabyard_cache_destroy(cache) == 0);
	pool = slabyard_mempool_create(1, slabyard_mempool_kmalloc, slabyard_mempool_kfree, (void *)64);
	CHECK(pool != NULL);
	slabyard_mempool_destroy(pool);
}

static unsigned long idle = 1000;

static unsigned long count(void *with) { (void)with; return idle; }

static unsigned long scan(void *with, unsigned long nr)
{
	(void)with;
	if (nr > idle)
		nr = idle;
	idle -= nr;
	return nr;
}

static void shrinkers_are_asked(void)
{
	int number = slabyard_shrinker_register("idle", count, scan, NULL, SLABYARD_DEFAULT_SEEKS, 0);
	CHECK(number >= 0);
	CHECK(slabyard_relieve() > 0 && idle < 1000);
	CHECK(slabyard_shrinker_unregister(number) == 0);
	CHECK(slabyard_shrinker_unregister(number) == -1 && errno == EINVAL);
	CHECK(slabyard_shrinker_unregister(-1) == -1 && slabyard_shrinker_unregister(99) == -1);
	unsigned long before = idle = 500;
	CHECK(slabyard_relieve() == 0 && idle == before);
	CHECK(slabyard_shrinker_register("none", NULL, scan, NULL, 2, 0) == -1 && errno == EINVAL);
	int numbers[16];
	for (int i = 0; i < 16; i++)
		CHECK((numbers[i] = slabyard_shrinker_register("many", count, scan, NULL, 2, 0)) >= 0);
	CHECK(slabyard_shrinker_register("more", count, scan, NULL, 2, 0) == -1 && errno == ENOMEM);
	for (int i = 0; i < 16; i++)
		CHECK(slabyard_shrinker_unregister(numbers[i]) == 0);
	slabyard_trim();
}

static void *volatile shared;
static volatile int stop;

static void *read_shared(void *with)
{
	(void)with;
	while (!stop) {
		slabyard_rcu_read_lock();
		int *seen = (int *)shared;
		for (int i = 0; seen != NULL && i < 100; i++)
			CHECK(*(volatile int *)seen == 7);
		slabyard_rcu_read_unlock();
	}
	return NULL;
}

static void readers_see_what_is_not_freed(void)
{
	struct slabyard_cache *cache = slabyard_cache_create("read", 64, NULL);
	pthread_t reader;
	CHECK(pthread_create(&reader, NULL, read_shared, NULL) == 0);
	for (int i = 0; i < 2000; i++) {
		int *next = (int *)(i % 2 ? slabyard_cache_alloc(cache) : slabyard_kmalloc(64));
		*next = 7;
		int *old = (int *)__sync_lock_test_and_set(&shared, next);
		if (old != NULL && i % 2)
			CHECK(slabyard_kfree_rcu(old) == 0);
		else if (old != NULL)
			CHECK(slabyard_cache_free_rcu(cache, old) == 0);
	}
	int *last = (int *)__sync_lock_test_and_set(&shared, NULL);
	CHECK(slabyard_synchronize_rcu() == 0);
	slabyard_kfree(last);
	CHECK(slabyard_kfree_rcu(NULL) == 0 && slabyard_cache_free_rcu(cache, NULL) == 0);
	CHECK(slabyard_rcu_barrier() == 0);
	stop = 1;
	CHECK(pthread_join(reader, NULL) == 0);
	CHECK(slabyard_cache_destroy(cache) == 0);
}

int main(void)
{
	readers_see_what_is_not_freed();
	blocks_have_the_size_that_was_asked_for();
	nothing_and_too_much_are_defined();
	a_block_keeps_its_bytes_as_it_grows();
	copies_are_equal();
	a_reserve_never_fails();
	shrinkers_are_asked();
	return PASSED;
}
