/* One misuse a run, by its name; `list` prints each name with what must be said of it. */
#include "check.h"
#include <stdint.h>

static struct slabyard_cache *a, *b;
static char *object, *block;

static void freed_to_the_wrong_cache(void) { slabyard_cache_free(b, object); }
static void kmalloced_to_a_cache(void) { slabyard_cache_free(a, block); }
static void interior(void) { slabyard_cache_free(a, object + 8); slabyard_cache_shrink(a); }
static void misaligned(void) { slabyard_cache_free(a, object + 1); }
static void of_the_stack(void) { int local = 0; slabyard_cache_free(a, (void *)&local); }
static void freed_twice(void) { slabyard_cache_free(a, object); slabyard_cache_free(a, object); }

static void freed_twice_with_others_between(void)
{
	void *other = slabyard_cache_alloc(a);
	slabyard_cache_free(a, object);
	slabyard_cache_free(a, other);
	slabyard_cache_free(a, object);
	slabyard_cache_shrink(a);
}

static void bulk_of_two_caches(void)
{
	void *objects[3] = { slabyard_cache_alloc(a), slabyard_cache_alloc(b), slabyard_cache_alloc(a) };
	slabyard_cache_free_bulk(a, 3, objects);
}

static void bulk_with_one_twice(void)
{
	void *objects[3] = { slabyard_cache_alloc(a), object, object };
	slabyard_cache_free_bulk(a, 3, objects);
}

static void bulk_with_an_interior_pointer(void)
{
	void *objects[2] = { slabyard_cache_alloc(a), object + 8 };
	slabyard_cache_free_bulk(a, 2, objects);
	slabyard_cache_shrink(a);
}

static void bulk_of_the_stack(void)
{
	int local = 0;
	void *objects[2] = { object, &local };
	slabyard_cache_free_bulk(a, 2, objects);
}

static void no_cache(void) { slabyard_cache_free(NULL, object); }
static void alloc_of_no_cache(void) { CHECK(slabyard_cache_alloc(NULL) == NULL); }
static void of_a_destroyed_cache(void)
{
	CHECK(slabyard_cache_destroy(b) == 0);
	CHECK(slabyard_cache_alloc(b) == NULL);
}
static void destroyed_twice(void) { slabyard_cache_destroy(b); slabyard_cache_destroy(b); }
static void a_cache_that_is_none(void) { slabyard_cache_shrink((struct slabyard_cache *)(void *)block); }
static void kmallocs_cache_destroyed(void) { slabyard_cache_destroy(slabyard_cache_of(block)); }

static void make(void *object) { *(int *)object = 1; }

static void zeros_over_a_constructor(void)
{
	struct slabyard_cache_args args = SLABYARD_CACHE_ARGS;
	args.ctor = make;
	struct slabyard_cache *made = slabyard_cache_create("made", 64, &args);
	CHECK(slabyard_cache_zalloc(made) == NULL);
}

static void no_sheaf(void) { CHECK(slabyard_sheaf_alloc(NULL) == NULL); }
static void waiting_in_a_section(void)
{
	slabyard_rcu_read_lock();
	CHECK(slabyard_synchronize_rcu() == -1);
}
static void freed_after_readers_to_the_wrong_cache(void)
{
	CHECK(slabyard_cache_free_rcu(b, object) == -1);
}
static void no_pool(void) { CHECK(slabyard_mempool_alloc(NULL) == NULL); }
static void kfree_of_the_stack(void) { int local = 0; slabyard_kfree(&local); }
static void ksize_of_the_stack(void) { int local = 0; CHECK(slabyard_ksize(&local) == 0); }
static void kfree_twice(void) { slabyard_kfree(block); slabyard_kfree(block); }

static const struct {
	const char *name;
	void (*run)(void);
	const char *said;
} all[] = {
#define CASE(name, said) { #name, name, said }
	CASE(freed_to_the_wrong_cache, "wrong cache, the object is of \"a\""),
	CASE(kmalloced_to_a_cache, "wrong cache, the object is of \"kmalloc-64\""),
	CASE(interior, "interior pointer"),
	CASE(misaligned, "misaligned pointer into cache a"),
	CASE(of_the_stack, "invalid pointer, not from this allocator"),
	CASE(freed_twice, "double free of an object of cache a"),
	CASE(freed_twice_with_others_between, "double free of an object of cache a"),
	CASE(bulk_of_two_caches, "wrong cache, the object is of \"b\""),
	CASE(bulk_with_one_twice, "double free of an object of cache a"),
	CASE(bulk_with_an_interior_pointer, "interior pointer"),
	CASE(bulk_of_the_stack, "invalid pointer, not from this allocator"),
	CASE(no_cache, "slabyard_cache_free(NULL): a cache is missing"),
	CASE(alloc_of_no_cache, "slabyard_cache_alloc(NULL): a cache is missing"),
	CASE(of_a_destroyed_cache, "the cache \"b\" was destroyed"),
	CASE(destroyed_twice, "the cache \"b\" was destroyed"),
	CASE(a_cache_that_is_none, "no cache, but some other pointer"),
	CASE(kmallocs_cache_destroyed, "\"kmalloc-64\"): a cache of kmalloc's"),
	CASE(zeros_over_a_constructor, "a cache with a constructor"),
	CASE(no_sheaf, "slabyard_sheaf_alloc(NULL): a sheaf is missing"),
	CASE(waiting_in_a_section, "slabyard_synchronize_rcu: the caller is in a section itself"),
	CASE(freed_after_readers_to_the_wrong_cache, "wrong cache, the object is of \"a\""),
	CASE(no_pool, "slabyard_mempool_alloc(NULL): a pool is missing"),
	CASE(kfree_of_the_stack, "slabyard_kfree(0x"),
	CASE(ksize_of_the_stack, "slabyard_ksize(0x"),
	CASE(kfree_twice, "double free of an object of cache kmalloc-64"),
};

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	a = slabyard_cache_create("a", 64, NULL);
	b = slabyard_cache_create("b", 64, NULL);
	object = (char *)slabyard_cache_alloc(a);
	block = (char *)slabyard_kmalloc(64);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (strcmp(argv[1], "list") == 0)
			printf("%s\t%s\n", all[i].name, all[i].said);
		if (strcmp(argv[1], all[i].name) == 0)
			all[i].run();
	}
	return PASSED;
}
