/* Readers: a cache whose memory stays of its type, objects freed after readers, and forks. */
#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* Without the flag of the cache that readers look at, most runs fail. */
#define ROUNDS 20000
#define TYPE 0x7e57ab1eul
#define KEYS 4

/* As large as a slab is small, so that slabs come and go. */
struct node {
	unsigned long type, key, value;
	char rest[2000];
};

static struct slabyard_cache *typed, *other;
static struct node *table[KEYS];
static unsigned long *published;
static int done;

static void make(void *object)
{
	__atomic_store_n(&((struct node *)object)->type, TYPE, __ATOMIC_RELAXED);
}

static void *read_all(void *unused)
{
	unsigned long nth = 0;
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		slabyard_rcu_read_lock();
		unsigned long *seen = __atomic_load_n(&published, __ATOMIC_ACQUIRE);
		unsigned long first = __atomic_load_n(seen, __ATOMIC_RELAXED);
		slabyard_rcu_read_lock();
		for (unsigned long key = 1; key <= KEYS; key++) {
			struct node *node = __atomic_load_n(&table[key - 1], __ATOMIC_ACQUIRE);
			if (node == NULL)
				continue;
			/* Some let others run before they look. */
			if (++nth % 64 == 0)
				usleep(100);
			CHECK(__atomic_load_n(&node->type, __ATOMIC_RELAXED) == TYPE);
			if (__atomic_load_n(&node->key, __ATOMIC_ACQUIRE) != key)
				continue;
			unsigned long value = __atomic_load_n(&node->value, __ATOMIC_ACQUIRE);
			/* Is it still the node of this key? */
			if (__atomic_load_n(&node->key, __ATOMIC_ACQUIRE) == key)
				CHECK(value == 100 * key);
		}
		slabyard_rcu_read_unlock();
		CHECK(__atomic_load_n(seen, __ATOMIC_RELAXED) == first);
		slabyard_rcu_read_unlock();
	}
	return unused;
}

enum replaced { BY_NONE, BY_ANOTHER };

static void replace(unsigned long key, enum replaced by)
{
	struct node *node = NULL;
	if (by == BY_ANOTHER) {
		node = (struct node *)slabyard_cache_alloc(typed);
		CHECK(node != NULL && node->type == TYPE);
		__atomic_store_n(&node->value, 100 * key, __ATOMIC_RELEASE);
		__atomic_store_n(&node->key, key, __ATOMIC_RELEASE);
	}
	node = __atomic_exchange_n(&table[key - 1], node, __ATOMIC_ACQ_REL);
	if (node != NULL) {
		(void)__atomic_exchange_n(&node->key, 0, __ATOMIC_ACQ_REL);
		slabyard_cache_free(typed, node);
	}
}

static void publish(unsigned long round)
{
	unsigned long *next = (unsigned long *)slabyard_kmalloc(64);
	CHECK(next != NULL);
	__atomic_store_n(next, round, __ATOMIC_RELAXED);
	CHECK(slabyard_kfree_rcu(__atomic_exchange_n(&published, next, __ATOMIC_ACQ_REL)) == 0);
}

/* Ends slabs of the one cache, and writes to what the other one gets of them. */
static void take_pages(void)
{
	void *objects[8];
	(void)slabyard_cache_shrink(typed);
	CHECK(slabyard_cache_alloc_bulk(other, 8, objects) == 8);
	for (int i = 0; i < 8; i++)
		memset(objects[i], 0xbd, sizeof(struct node));
	slabyard_cache_free_bulk(other, 8, objects);
	(void)slabyard_cache_shrink(other);
}

/* The child has no reader but itself. */
static void wait_in_child(void)
{
	int status;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(slabyard_synchronize_rcu() == 0 ? PASSED : 1);
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == PASSED);
}

int main(void)
{
	pthread_t readers[3];
	struct slabyard_cache_args args = SLABYARD_CACHE_ARGS;
	args.min_partial = 0;
	other = slabyard_cache_create("other", sizeof(struct node), &args);
	args.flags = SLABYARD_TYPESAFE_BY_RCU;
	args.ctor = make;
	typed = slabyard_cache_create("typed", sizeof(struct node), &args);
	published = (unsigned long *)slabyard_kzalloc(64);
	CHECK(typed != NULL && other != NULL && published != NULL);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&readers[i], NULL, read_all, NULL) == 0);
	for (unsigned long round = 0; round < ROUNDS; round++) {
		replace(round % KEYS + 1, BY_ANOTHER);
		publish(round);
		if (round % 50 == 0) {
			for (unsigned long key = 1; key <= KEYS; key++)
				replace(key, BY_NONE);
			take_pages();
		}
		if (round % 4000 == 0) {
			CHECK(slabyard_synchronize_rcu() == 0);
			wait_in_child();
		}
	}
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_join(readers[i], NULL) == 0);
	for (int i = 0; i < KEYS; i++)
		slabyard_cache_free(typed, table[i]);
	slabyard_kfree(published);
	CHECK(slabyard_rcu_barrier() == 0);
	CHECK(slabyard_cache_destroy(typed) == 0 && slabyard_cache_destroy(other) == 0);
	return PASSED;
}
