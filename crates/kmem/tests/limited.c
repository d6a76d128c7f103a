/*
 * A program that is linked with the library and limits itself: what counts against a limit is what
 * it uses, whenever and however the limit is set. The first argument is when the program first calls
 * the library, the second how the limit is set.
 */
#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define NOBODY 65534

static size_t kib_of(const char *name)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	size_t kib = 0;

	while (file && fgets(line, sizeof line, file))
		if (strncmp(line, name, strlen(name)) == 0)
			kib = strtoul(line + strlen(name) + 1, NULL, 10);
	if (file)
		fclose(file);
	return kib;
}

/* Objects of a cache and blocks, so many bytes: each keeps what it holds. */
static void use(size_t most)
{
	struct slabyard_cache *cache = slabyard_cache_create("limited", 200, NULL);
	size_t n = most / 200, i, large = most / 4;
	char **object = malloc(n * sizeof *object), *block = slabyard_kmalloc(large);

	CHECK(cache && object && block);
	for (i = 0; i < n / 2; i++) {
		CHECK((object[i] = slabyard_cache_alloc(cache)) != NULL);
		memset(object[i], (int)i, 200);
	}
	memset(block, 7, large);
	for (i = 0; i < n / 2; i++) {
		CHECK(object[i][0] == (char)i && object[i][199] == (char)i);
		slabyard_cache_free(cache, object[i]);
	}
	CHECK(block[0] == 7 && block[large - 1] == 7);
	slabyard_kfree(block);
	free(object);
	CHECK(slabyard_cache_destroy(cache) == 0);
}

static void *thread(void *argument)
{
	return argument;
}

/* What a program asks of others than us. */
static void others(void)
{
	char *own = malloc(MIB), *map;
	pthread_attr_t attributes;
	pthread_t id;

	CHECK(own != NULL);
	free(own);
	map = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(map != MAP_FAILED);
	munmap(map, 4 * MIB);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 128 << 10);
	CHECK(pthread_create(&id, &attributes, thread, NULL) == 0);
	CHECK(pthread_join(id, NULL) == 0);
}

static void limit(const char *how)
{
	size_t bytes = (kib_of("VmSize:") << 10) + 24 * MIB;
	struct rlimit most = { bytes, bytes };
	pid_t me = getpid(), child;
	int status;

	if (strcmp(how, "setrlimit") == 0) {
		CHECK(setrlimit(RLIMIT_AS, &most) == 0);
	} else if (strcmp(how, "raw") == 0) {
		CHECK(syscall(SYS_prlimit64, 0, RLIMIT_AS, &most, NULL) == 0);
	} else if (strcmp(how, "other") == 0) {
		/* By another process, as `prlimit --pid` does. */
		if ((child = fork()) == 0)
			_exit(prlimit(me, RLIMIT_AS, &most, NULL) != 0);
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	} else if (strcmp(how, "data") == 0) {
		most.rlim_cur = most.rlim_max = (kib_of("VmData:") << 10) + 24 * MIB;
		CHECK(setrlimit(RLIMIT_DATA, &most) == 0);
	} else {
		most.rlim_cur = most.rlim_max = 8 * MIB;
		CHECK(setrlimit(RLIMIT_MEMLOCK, &most) == 0);
		CHECK(getuid() != 0 || setresuid(NOBODY, NOBODY, NOBODY) == 0);
		CHECK(syscall(SYS_mlockall, MCL_CURRENT | MCL_FUTURE) == 0);
	}
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	/* The program, its libraries, a stack: nothing for us. */
	CHECK(kib_of("VmSize:") < 8192);
	CHECK(kib_of("VmData:") < 2048);
	if (strcmp(argv[1], "before") == 0)
		use(MIB);
	if (strcmp(argv[2], "none") != 0)
		limit(argv[2]);
	if (strcmp(argv[2], "mlockall") != 0)
		others();
	if (strcmp(argv[1], "never") != 0)
		use(strcmp(argv[2], "mlockall") == 0 ? MIB : 8 * MIB);
	return PASSED;
}
