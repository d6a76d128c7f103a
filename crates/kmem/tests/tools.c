/* Faults in objects, one by its name, which memcheck and AddressSanitizer find: the function at fault
 * is `culprit`, the one that allocated `maker`. */
#include "check.h"
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noinline, noclone))

static struct slabyard_cache *cache;
static volatile char seen;

static APART char *maker(void)
{
	char *object = (char *)slabyard_cache_alloc(cache);
	CHECK(object != NULL);
	memset(object, 1, 40);
	return object;
}

static APART void culprit_reads(const char *at)
{
	seen = *(const volatile char *)at;
}

static APART void culprit_frees(char *object)
{
	slabyard_cache_free(cache, object);
	/* No call in the caller's place. */
	seen = 0;
}

static void clean(void)
{
	void *many[100];
	struct slabyard_sheaf *sheaf = slabyard_sheaf_prefill(cache, 5);
	char *one = maker(), *block = (char *)slabyard_kzalloc(5000), *other = (char *)slabyard_kmalloc(100);
	CHECK(slabyard_cache_alloc_bulk(cache, 100, many) == 100);
	for (int i = 0; i < 100; i++)
		memset(many[i], i, 40);
	slabyard_cache_free_bulk(cache, 100, many);
	CHECK(sheaf != NULL && (many[0] = slabyard_sheaf_alloc(sheaf)) != NULL);
	memset(many[0], 7, 40);
	slabyard_cache_free(cache, many[0]);
	slabyard_sheaf_return(sheaf);
	other = (char *)slabyard_krealloc(other, 3000);
	memset(other, 3, slabyard_ksize(other));
	block = (char *)slabyard_krealloc(block, 100000);
	memset(block, 5, 100000);
	slabyard_kfree(other);
	slabyard_kfree_sensitive(block);
	/* What an object points to is no leak. */
	*(void **)(void *)one = malloc(77);
	seen = one[39];
	free(*(void **)(void *)one);
	slabyard_cache_free(cache, one);
	for (int i = 0; i < 2000; i++)
		slabyard_cache_free(cache, maker());
	slabyard_cache_shrink(cache);
	slabyard_cache_free(cache, maker());
}

static int made, ended;
static void make(void *object) { memset(object, 0x42, 40); made++; }
static void end(void *object) { CHECK(*(char *)object == 0x42); ended++; }

/* A free object keeps its state, and its destructor may look at it. */
static void constructed(void)
{
	struct slabyard_cache_args args = SLABYARD_CACHE_ARGS;
	struct slabyard_cache *kept;
	args.ctor = make;
	args.dtor = end;
	kept = slabyard_cache_create("kept", 40, &args);
	for (int i = 0; i < 3000; i++) {
		char *object = (char *)slabyard_cache_alloc(kept);
		CHECK(object[0] == 0x42 && object[39] == 0x42);
		slabyard_cache_free(kept, object);
	}
	CHECK(slabyard_cache_destroy(kept) == 0 && made > 0 && made == ended);
}

/* Readers may look at what was freed. */
static void read_by_readers(void)
{
	struct slabyard_cache_args args = SLABYARD_CACHE_ARGS;
	struct slabyard_cache *typesafe;
	char *object, *waits = maker();
	args.flags = SLABYARD_TYPESAFE_BY_RCU;
	typesafe = slabyard_cache_create("typesafe", 40, &args);
	object = (char *)slabyard_cache_alloc(typesafe);
	memset(object, 9, 40);
	slabyard_rcu_read_lock();
	slabyard_cache_free(typesafe, object);
	culprit_reads(object);
	CHECK(slabyard_cache_free_rcu(cache, waits) == 0);
	culprit_reads(waits);
	slabyard_rcu_read_unlock();
	CHECK(slabyard_rcu_barrier() == 0);
	CHECK(slabyard_cache_destroy(typesafe) == 0);
}

static void after(void) { char *o = maker(); slabyard_cache_free(cache, o); culprit_reads(o + 8); }

static void after_bulk(void)
{
	void *many[3];
	CHECK(slabyard_cache_alloc_bulk(cache, 3, many) == 3);
	slabyard_cache_free_bulk(cache, 3, many);
	culprit_reads((char *)many[1]);
}

static void after_shrink(void)
{
	char *o = maker();
	slabyard_cache_free(cache, o);
	slabyard_cache_shrink(cache);
	culprit_reads(o);
}

static void beyond(void)
{
	char *one = maker(), *two = maker();
	culprit_reads(one + 40);
	slabyard_cache_free(cache, one);
	slabyard_cache_free(cache, two);
}

static void twice(void) { char *o = maker(); slabyard_cache_free(cache, o); culprit_frees(o); }

static void block_after(void)
{
	char *block = (char *)slabyard_kmalloc(300);
	slabyard_kfree(block);
	culprit_reads(block + 10);
}

static APART void leak(void) { char *volatile o = maker(); o = NULL; (void)o; }

static const struct {
	const char *name;
	void (*run)(void);
} all[] = {
	{ "clean", clean }, { "constructed", constructed }, { "read_by_readers", read_by_readers },
	{ "after", after }, { "after_bulk", after_bulk }, { "after_shrink", after_shrink },
	{ "beyond", beyond }, { "twice", twice }, { "block_after", block_after }, { "leak", leak },
};

static APART void overwrite_the_stack(void)
{
	volatile char room[4096];
	for (size_t i = 0; i < sizeof room; i++)
		room[i] = 0;
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	cache = slabyard_cache_create("object", 40, NULL);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (strcmp(argv[1], all[i].name) == 0)
			all[i].run();
	overwrite_the_stack();
	if (slabyard_cache_destroy(cache) == 0)
		return PASSED;
	return strcmp(argv[1], "leak") == 0 ? PASSED : 1;
}
