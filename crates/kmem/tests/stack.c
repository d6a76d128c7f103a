/* How much stack the functions take, on a stack that is painted before: MOST bytes at most,
 * MOST_OF_CREATE where a cache is made. The argument `planted` makes a stage use more, which
 * must be seen. */
#include "check.h"
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { MOST = 3072, MOST_OF_CREATE = 3584, STACK = 128 << 10, NR = 3000, ROUNDS = 12, PAINT = 0xa5 };

static char *stack;
static size_t empty_depth;
static ucontext_t outside, inside;
static void (*body)(void);

static void on_stack(void)
{
	body();
}

static size_t run(void (*f)(void))
{
	size_t unused = 0;

	body = f;
	memset(stack, PAINT, STACK);
	getcontext(&inside);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = STACK;
	inside.uc_link = &outside;
	makecontext(&inside, on_stack, 0);
	swapcontext(&outside, &inside);
	while (unused < STACK && (unsigned char)stack[unused] == PAINT)
		unused++;
	return STACK - unused - empty_depth;
}

static int failed;

static void judge(const char *what, size_t used)
{
	size_t most = strstr(what, "create") ? MOST_OF_CREATE : MOST;

	printf("%-20s %zu\n", what, used);
	if (used > most) {
		fprintf(stderr, "%s: %zu bytes of stack, at most %zu\n", what, used, most);
		failed = 1;
	}
}

static void nothing(void) {}

static void planted(void)
{
	volatile char frame[8192];

	frame[0] = 1;
	(void)frame[0];
}

static struct slabyard_cache *cache, *others[8];
static void *objects[NR];
static const char *const names[8] = { "a", "b", "c", "d", "e", "f", "g", "h" };

static void create(void)
{
	cache = slabyard_cache_create("one", 200, NULL);
}
static void create_others(void)
{
	int i;

	for (i = 0; i < 8; i++)
		others[i] = slabyard_cache_create(names[i], 64u << i, NULL);
}
static void destroy(void)
{
	int i;

	for (i = 0; i < 8; i++)
		slabyard_cache_destroy(others[i]);
}
static void fill_and_destroy(void)
{
	create_others();
	destroy();
}
static void take(void)
{
	int i;

	for (i = 0; i < NR; i++)
		objects[i] = i % 3 ? slabyard_cache_alloc(cache)
				   : slabyard_cache_alloc(others[i % 8]);
}
static void give(void)
{
	int i;

	for (i = 0; i < NR; i++)
		slabyard_cache_free(i % 3 ? cache : others[i % 8], objects[i]);
}
static void take_any(void)
{
	int i;

	for (i = 0; i < NR; i++)
		objects[i] = slabyard_kmalloc((size_t)i * 97 % 60000);
}
static void give_any(void)
{
	int i;

	for (i = 0; i < NR; i++)
		slabyard_kfree(objects[i]);
}

int main(int argc, char **argv)
{
	size_t took = 0, gave = 0, took_any = 0, gave_any = 0, used;
	int round;

	stack = (char *)mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(stack != (char *)MAP_FAILED);
	empty_depth = run(nothing);
	judge("the first create", run(create));
	judge("create", run(create_others));
	for (round = 0; round < ROUNDS; round++) {
		if ((used = run(take)) > took)
			took = used;
		usleep(2000);
		if ((used = run(give)) > gave)
			gave = used;
		if ((used = run(take_any)) > took_any)
			took_any = used;
		usleep(2000);
		if ((used = run(give_any)) > gave_any)
			gave_any = used;
		if (round % 4 == 3)
			usleep(12000);
	}
	judge("alloc", took);
	judge("free", gave);
	judge("kmalloc", took_any);
	judge("kfree", gave_any);
	judge("destroy", run(destroy));
	judge("create and destroy", run(fill_and_destroy));
	if (argc > 1 && strcmp(argv[1], "planted") == 0)
		judge("planted", run(planted));
	slabyard_cache_destroy(cache);
	return failed ? 1 : PASSED;
}
