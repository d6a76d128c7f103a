/*
 * Memory that runs out: null and ENOMEM, nothing lost, and all of it there
 * again after it was freed. Runs itself anew under limits on address space.
 */
#include "check.h"
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)

/* Takes blocks until there are no more, linked through their first word. */
static size_t take_all(size_t size, void **first, size_t at_most)
{
    size_t nr = 0;
    void **p;

    *first = NULL;
    errno = 0;
    while (nr < at_most && (p = malloc(size))) {
        if (size >= 4 * sizeof *p) {
            p[1] = (void *)(uintptr_t)nr;
            memset((char *)p + size - 8, 0x77, 8);
        }
        *p = *first;
        *first = p;
        nr++;
    }
    if (nr < at_most)
        CHECK(errno == ENOMEM, "errno is %d after %zu blocks of %zu", errno, nr, size);
    return nr;
}

static void free_all(void *first, size_t nr, size_t size)
{
    while (first) {
        void **p = first;

        nr--;
        if (size >= 4 * sizeof *p) {
            CHECK(p[1] == (void *)(uintptr_t)nr, "block %zu of %zu", nr, size);
            CHECK(((char *)p)[size - 1] == 0x77, "the end of block %zu of %zu", nr, size);
        }
        first = *p;
        free(p);
    }
    CHECK(nr == 0, "%zu blocks of %zu are lost", nr, size);
}

/* While nothing is left, each call fails by itself and breaks nothing. */
static void when_empty(void *live)
{
    void *p = live, *mark = &p;
    int n;

    fill(live, 100, 3);
    for (n = 0; n < 100; n++) {
        errno = 0;
        CHECK(!opaque(malloc(64 * MIB * 64)) && errno == ENOMEM, "malloc, errno %d", errno);
        errno = 0;
        CHECK(!opaque(calloc(64 * MIB, 64)) && errno == ENOMEM, "calloc, errno %d", errno);
        errno = 0;
        CHECK(!opaque(realloc(live, 64 * MIB * 64)) && errno == ENOMEM, "realloc, errno %d", errno);
        p = mark;
        CHECK(posix_memalign(&p, 4096, 64 * MIB * 64) == ENOMEM && p == mark, "posix_memalign");
    }
    CHECK(intact(live, 100, 3), "a block was spoilt by a failed realloc");
}

static void under_limit(size_t limit)
{
    static const size_t sizes[] = { 48, 1000, 9000, 65536, MIB, 8 * MIB, 1000 };
    size_t i, nr, again;
    void *first, *live = malloc(100);

    CHECK(live, "nothing works under %zu MiB", limit / MIB);
    if (!live)
        return;
    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i];

        nr = take_all(size, &first, SIZE_MAX);
        CHECK(nr * size >= limit / 4, "only %zu blocks of %zu under %zu MiB", nr, size, limit / MIB);
        CHECK(nr * size <= limit, "%zu blocks of %zu under %zu MiB", nr, size, limit / MIB);
        when_empty(live);
        free_all(first, nr, size);
        again = take_all(size, &first, SIZE_MAX);
        /* What a process keeps for itself may lie between: 3 MiB of 100. */
        CHECK(again >= nr - nr / 33 - 1, "%zu blocks of %zu at first, then %zu", nr, size, again);
        free_all(first, again, size);
        /* The next size needs what this one had. */
        malloc_trim(0);
    }
    free(live);
}

static void *small_thread(void *arg)
{
    void *first;
    size_t nr = take_all(2000, &first, 500);

    CHECK(nr == 500, "a thread got %zu", nr);
    free_all(first, nr, 2000);
    return arg;
}

/* Little address space: threads and plain work still go. */
static void under_small_limit(void)
{
    pthread_attr_t attributes;
    pthread_t thread[4];
    void *first;
    int n;

    free_all((take_all(500, &first, 10000), first), 10000, 500);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    for (n = 0; n < 4; n++)
        CHECK(pthread_create(&thread[n], &attributes, small_thread, NULL) == 0, "thread %d", n);
    for (n = 0; n < 4 && !nr_failed; n++)
        pthread_join(thread[n], NULL);
}

static void set_limit(size_t limit)
{
    struct rlimit r = { limit, limit };

    if (setrlimit(RLIMIT_AS, &r)) {
        perror("setrlimit");
        exit(2);
    }
}

static void run_under(const char *what, size_t limit, char *self)
{
    char text[32];
    int status = 0;
    pid_t pid;

    snprintf(text, sizeof text, "%zu", limit);
    pid = fork();
    if (pid == 0) {
        char *words[] = { self, (char *)what, text, NULL };

        set_limit(limit);
        execv("/proc/self/exe", words);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        status = -1;
    CHECK(status == 0, "under %zu MiB (%s): status %#x", limit / MIB, what, (unsigned)status);
}

/* A limit that comes when the process already holds more than that. */
static void limited_late(void)
{
    void *first, *p = malloc(1000);
    size_t nr;
    int n;

    fill(p, 1000, 8);
    set_limit(100 * MIB);
    nr = take_all(8 * MIB, &first, 200);
    CHECK(nr <= 200, "%zu", nr);
    for (n = 0; n < 1000; n++) {
        void *q = malloc(100);

        if (q)
            fill(q, 100, 1);
        free(q);
    }
    free_all(first, nr, 8 * MIB);
    CHECK(intact(p, 1000, 8), "the block of before");
    free(p);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "all") == 0) {
        under_limit(strtoul(argv[2], NULL, 10));
    } else if (argc > 2 && strcmp(argv[1], "small") == 0) {
        under_small_limit();
    } else if (argc > 2) {
        limited_late();
    } else {
        run_under("all", 160 * MIB, argv[0]);
        run_under("all", 100 * MIB, argv[0]);
        run_under("small", 64 * MIB, argv[0]);
        run_under("small", 32 * MIB, argv[0]);
        run_under("late", 4096 * MIB, argv[0]);
    }
    return finish("nomem");
}
