/* Caches and their objects, by C's names: what each call does, and each error that it reports. */
#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int made, ended;

static void make(void *object) { *(int *)object = 42; made++; }
static void end(void *object) { CHECK(*(int *)object == 42); ended++; }

static struct slabyard_cache *cache_of_size(const char *name, size_t size)
{
	struct slabyard_cache *cache = slabyard_cache_create(name, size, NULL);
	CHECK(cache != NULL);
	return cache;
}

static void a_cache_serves_objects(void)
{
	struct slabyard_cache *cache = cache_of_size("served", 100);
	void *objects[1000];
	CHECK(strcmp(slabyard_cache_name(cache), "served") == 0);
	CHECK(slabyard_cache_size(cache) == 100);
	for (int i = 0; i < 1000; i++) {
		objects[i] = slabyard_cache_alloc(cache);
		CHECK(objects[i] != NULL && (uintptr_t)objects[i] % 8 == 0);
		memset(objects[i], i, 100);
		CHECK(slabyard_cache_of((char *)objects[i] + 99) == cache);
	}
	for (int i = 0; i < 1000; i++)
		CHECK(((unsigned char *)objects[i])[99] == (unsigned char)i);
	CHECK(slabyard_cache_destroy(cache) == EBUSY);
	for (int i = 0; i < 1000; i++)
		slabyard_cache_free(cache, objects[i]);
	slabyard_cache_free(cache, NULL);
	unsigned char *zeros = (unsigned char *)slabyard_cache_zalloc(cache);
	for (int i = 0; i < 100; i++)
		CHECK(zeros[i] == 0);
	slabyard_cache_free(cache, zeros);
	void *near = slabyard_cache_alloc_node(cache, 0);
	CHECK(near != NULL);
	slabyard_cache_free(cache, near);
	CHECK(slabyard_cache_shrink(cache) == 0);
	CHECK(slabyard_cache_destroy(cache) == 0);
	CHECK(slabyard_cache_destroy(NULL) == 0);
	CHECK(slabyard_cache_of(&made) == NULL && slabyard_cache_of(NULL) == NULL);
}

static void arguments_are_what_a_cache_has(void)
{
	const char *const engines[] = { NULL, "slub", "tiny", "slab", "slob" };
	for (size_t i = 0; i < sizeof(engines) / sizeof(*engines); i++) {
		struct slabyard_cache_args args = SLABYARD_CACHE_ARGS;
		args.align = 256;
		args.ctor = make;
		args.dtor = end;
		args.flags = SLABYARD_HWCACHE_ALIGN | SLABYARD_RECLAIM_ACCOUNT;
		args.sheaf_capacity = 10;
		args.min_partial = SLABYARD_NONE;
		args.max_order = 2;
		args.engine = engines[i];
		made = ended = 0;
		struct slabyard_cache *cache = slabyard_cache_create("made", 40, &args);
		CHECK(cache != NULL);
		int *object = (int *)slabyard_cache_alloc(cache);
		CHECK(object != NULL && *object == 42 && made > 0 && (uintptr_t)object % 256 == 0);
		slabyard_cache_free(cache, object);
		CHECK(slabyard_cache_shrink(cache) == 0);
		CHECK(made == ended);
		CHECK(slabyard_cache_destroy(cache) == 0);
	}
}

static int bytes_of_args_too_many(void)
{
	struct { struct slabyard_cache_args args; long further; } newer;
	memset(&newer, 0, sizeof newer);
	newer.args.bytes = sizeof newer;
	struct slabyard_cache *cache = slabyard_cache_create("newer", 40, &newer.args);
	CHECK(cache != NULL && slabyard_cache_destroy(cache) == 0);
	newer.further = 1;
	CHECK(slabyard_cache_create("newer", 40, &newer.args) == NULL && errno == EINVAL);
	newer.args.bytes = 0;
	return slabyard_cache_create("newer", 40, &newer.args) == NULL && errno == EINVAL;
}

static int refused(const char *name, size_t size, const struct slabyard_cache_args *args, int error)
{
	errno = 0;
	return slabyard_cache_create(name, size, args) == NULL && errno == error;
}

static void what_cannot_be_made_is_refused(void)
{
	struct slabyard_cache_args args = SLABYARD_CACHE_ARGS;
	struct slabyard_cache *cache = cache_of_size("taken", 64);
	CHECK(refused("taken", 64, NULL, EEXIST));
	CHECK(slabyard_cache_destroy(cache) == 0);
	CHECK(slabyard_cache_destroy(cache_of_size("taken", 64)) == 0);
	CHECK(refused(NULL, 64, NULL, EINVAL));
	CHECK(refused("", 64, NULL, EINVAL));
	CHECK(refused("a name", 64, NULL, EINVAL));
	CHECK(refused("12345678901234567890123456789012", 64, NULL, ENAMETOOLONG));
	CHECK(slabyard_cache_destroy(cache_of_size("1234567890123456789012345678901", 64)) == 0);
	CHECK(refused("none", 0, NULL, EINVAL));
	CHECK(refused("none", 32769, NULL, EINVAL));
	CHECK(refused("none", SIZE_MAX, NULL, EINVAL));
	CHECK(slabyard_cache_destroy(cache_of_size("largest", 32768)) == 0);
	args.align = 24;
	CHECK(refused("none", 64, &args, EINVAL));
	args.align = 32768;
	CHECK(refused("none", 64, &args, EINVAL));
	args.align = 0;
	args.flags = 0x8000;
	CHECK(refused("none", 64, &args, EINVAL));
	args.flags = 0;
	args.engine = "slut";
	CHECK(refused("none", 64, &args, EINVAL));
	args.engine = NULL;
	args.min_order = 3;
	args.max_order = 2;
	CHECK(refused("none", 64, &args, EINVAL));
	args.min_order = 0;
	args.max_order = SLABYARD_NONE;
	CHECK(refused("none", 20000, &args, EINVAL));
	CHECK(bytes_of_args_too_many());
}

static void bulk_is_all_or_nothing(void)
{
	struct slabyard_cache *cache = cache_of_size("bulk", 64);
	struct slabyard_cache *other = cache_of_size("other", 64);
	void *objects[500];
	CHECK(slabyard_cache_alloc_bulk(cache, 0, objects) == 0);
	CHECK(slabyard_cache_alloc_bulk(cache, 500, objects) == 500);
	for (int i = 0; i < 500; i++)
		CHECK(slabyard_cache_of(objects[i]) == cache);
	/* Holes are passed over, and so is what is not there. */
	void *hole = objects[7];
	objects[7] = NULL;
	slabyard_cache_free_bulk(cache, 500, objects);
	slabyard_cache_free(cache, hole);
	objects[0] = slabyard_cache_alloc(cache);
	objects[1] = slabyard_cache_alloc(other);
	objects[2] = NULL;
	objects[3] = slabyard_kmalloc(10);
	slabyard_cache_free_bulk(NULL, 4, objects);
	slabyard_cache_free_bulk(cache, 0, NULL);
	CHECK(slabyard_cache_destroy(cache) == 0 && slabyard_cache_destroy(other) == 0);
}

/* Each number around that of the objects of one sequence, from stacks of every height, with a hole
   at each place in turn: no object is lost or handed out twice. */
static void short_bulks_are_all_or_nothing(void)
{
	struct slabyard_cache *cache = cache_of_size("short", 64);
	void *objects[70];
	for (size_t nr = 1; nr <= 70; nr++) {
		for (size_t round = 0; round < 40; round++) {
			CHECK(slabyard_cache_alloc_bulk(cache, nr, objects) == nr);
			for (size_t i = 0; i < nr; i++)
				*(size_t *)objects[i] = nr * round + i;
			for (size_t i = 0; i < nr; i++)
				CHECK(*(size_t *)objects[i] == nr * round + i);
			if (round % 2 == 1) {
				void *single = objects[round % nr];
				objects[round % nr] = NULL;
				slabyard_cache_free(cache, single);
			}
			slabyard_cache_free_bulk(cache, nr, objects);
		}
	}
	struct slabyard_cache_stats stats = SLABYARD_CACHE_STATS;
	CHECK(slabyard_cache_stats_get(cache, &stats) == 0 && stats.live_objects.low == 0);
	CHECK(slabyard_cache_destroy(cache) == 0);
}

static void count(void *object, void *with) { (void)object; ++*(int *)with; }

static void a_walk_meets_what_is_live(void)
{
	struct slabyard_cache *cache = cache_of_size("walked", 48);
	void *objects[300];
	int nr = 0;
	CHECK(slabyard_cache_alloc_bulk(cache, 300, objects) == 300);
	slabyard_cache_free_bulk(cache, 100, objects);
	CHECK(slabyard_cache_for_each_live(cache, count, &nr) == 0);
	CHECK(nr == 200);
	struct slabyard_sheaf *sheaf = slabyard_sheaf_prefill(cache, 7);
	nr = 0;
	CHECK(slabyard_cache_for_each_live(cache, count, &nr) == 0 && nr == 207);
	CHECK(slabyard_cache_destroy(cache) == EBUSY);
	slabyard_sheaf_return(sheaf);
	slabyard_cache_free_bulk(cache, 200, objects + 100);
	CHECK(slabyard_cache_destroy(cache) == 0);
}

static void a_sheaf_has_what_it_was_filled_with(void)
{
	struct slabyard_cache *cache = cache_of_size("sheaf", 200);
	for (size_t nr = 0; nr < 3000; nr = 3 * nr + 1) {
		struct slabyard_sheaf *sheaf = slabyard_sheaf_prefill(cache, nr);
		CHECK(sheaf != NULL && slabyard_sheaf_size(sheaf) == nr);
		for (size_t i = 0; i < nr; i++) {
			void *object = slabyard_sheaf_alloc(sheaf);
			CHECK(object != NULL);
			slabyard_cache_free(cache, object);
		}
		CHECK(slabyard_sheaf_alloc(sheaf) == NULL);
		CHECK(slabyard_sheaf_refill(sheaf, 10) == 0 && slabyard_sheaf_size(sheaf) == 10);
		slabyard_sheaf_return(sheaf);
	}
	slabyard_sheaf_return(NULL);
	CHECK(slabyard_cache_destroy(cache) == 0);
}

static void *in_thread(void *cache)
{
	void *kept[64] = { NULL };
	for (int i = 0; i < 20000; i++) {
		void **place = &kept[i * 7 % 64];
		slabyard_cache_free((struct slabyard_cache *)cache, *place);
		*place = slabyard_cache_alloc((struct slabyard_cache *)cache);
		memset(*place, i, 72);
	}
	slabyard_cache_free_bulk((struct slabyard_cache *)cache, 64, kept);
	return NULL;
}

static void threads_share_a_cache(void)
{
	struct slabyard_cache *cache = cache_of_size("threads", 72);
	pthread_t threads[6];
	for (int i = 0; i < 6; i++)
		CHECK(pthread_create(&threads[i], NULL, in_thread, cache) == 0);
	for (int i = 0; i < 6; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(slabyard_cache_destroy(cache) == 0);
}

static void a_child_has_its_parents_caches(void)
{
	struct slabyard_cache *cache = cache_of_size("forked", 64);
	void *object = slabyard_cache_alloc(cache);
	pid_t child = fork();
	if (child == 0) {
		slabyard_cache_free(cache, object);
		_exit(slabyard_cache_destroy(cache) == 0 &&
		      slabyard_cache_create("in child", 8, NULL) == NULL &&
		      slabyard_cache_create("in-child", 8, NULL) != NULL ? 17 : 1);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 17);
	slabyard_cache_free(cache, object);
	CHECK(slabyard_cache_destroy(cache) == 0);
}

int main(void)
{
	a_cache_serves_objects();
	arguments_are_what_a_cache_has();
	what_cannot_be_made_is_refused();
	bulk_is_all_or_nothing();
	short_bulks_are_all_or_nothing();
	a_walk_meets_what_is_live();
	a_sheaf_has_what_it_was_filled_with();
	threads_share_a_cache();
	a_child_has_its_parents_caches();
	return PASSED;
}
