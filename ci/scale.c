/* A process of many threads, or of a large heap that it hardly writes to: what it costs
 * (ci/scale-by-hand).
 *   scale threads N    N threads at once, of 16 KiB of stack, each of which allocates and frees 100
 *                      objects, and holds 20 until all have; then all end
 *   scale heap GIB     so many GiB in blocks of nearly 1 MiB, of each 64th of which a page is written; then all
 *                      are freed, every second one first
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern int malloc_trim(size_t);

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* In MiB. */
static double resident(void)
{
	long pages = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	if (file && fscanf(file, "%ld %ld", &pages, &resident) != 2)
		resident = 0;
	if (file)
		fclose(file);
	return resident * 4 / 1024.0;
}

static void say(const char *what)
{
	static double last;
	double time = now();
	printf("%-12s %8.2f s %9.1f MiB\n", what, last ? time - last : 0, resident());
	fflush(stdout);
	last = now();
}

static pthread_barrier_t all;

static void *work(void *nth)
{
	void *held[20], *passing[100];
	size_t seed = (size_t)nth;
	for (int i = 0; i < 100; i++)
		memset(passing[i] = malloc(16 + (seed + i * 37) % 1000), 1, 16);
	for (int i = 0; i < 20; i++)
		memset(held[i] = malloc(16 + (seed + i * 53) % 500), 1, 16);
	for (int i = 0; i < 100; i++)
		free(passing[i]);
	pthread_barrier_wait(&all);
	for (int i = 0; i < 20; i++)
		free(held[i]);
	return NULL;
}

static int threads(int n)
{
	pthread_t *ids = calloc(n, sizeof *ids);
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 16 << 10);
	pthread_barrier_init(&all, NULL, n + 1);
	say("begin");
	for (int i = 0; i < n; i++)
		if (pthread_create(&ids[i], &attributes, work, (void *)(size_t)i))
			return 1;
	say("all made");
	pthread_barrier_wait(&all);
	for (int i = 0; i < n; i++)
		pthread_join(ids[i], NULL);
	say("all ended");
	return 0;
}

static int heap(size_t gib)
{
	const size_t bytes = (1 << 20) - 4096, n = gib << 10;
	char **blocks = calloc(n, sizeof *blocks);
	say("begin");
	for (size_t i = 0; i < n; i++) {
		if (!(blocks[i] = malloc(bytes)))
			return 1;
		if (i % 64 == 0)
			blocks[i][bytes / 2] = 1;
	}
	say("allocated");
	for (size_t i = 0; i < n; i += 2)
		free(blocks[i]);
	say("half freed");
	for (size_t i = 1; i < n; i += 2)
		free(blocks[i]);
	say("all freed");
	malloc_trim(0);
	say("trimmed");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "threads"))
		return threads(atoi(argv[2]));
	if (argc == 3 && !strcmp(argv[1], "heap"))
		return heap(atoi(argv[2]));
	return 2;
}
