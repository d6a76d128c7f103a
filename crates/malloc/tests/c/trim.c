/* After a burst, and malloc_trim, the process is as small as before it. */
#include "check.h"
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)

enum { SMALL = 1000000, LARGE = 12, NEAR_KIB = 6 << 10 };

/* The table is no memory of the allocator's: it would be counted. */
static void **table;

static void burst(size_t nr, size_t size)
{
    size_t n;

    for (n = 0; n < nr; n++) {
        table[n] = malloc(size);
        if (!table[n])
            abort();
        memset(table[n], 1, size);
    }
}

static void free_in_order(size_t nr)
{
    size_t n;

    for (n = 0; n < nr; n++)
        free(table[n]);
}

/* Every 7919th, so that each slab empties only late. */
static void free_scattered(size_t nr)
{
    size_t n, at = 0;

    for (n = 0; n < nr; n++, at = (at + 7919) % nr)
        free(table[at]);
}

static void expect_near(long start, const char *what)
{
    long now = resident_kib();

    CHECK(now - start < NEAR_KIB, "%s: %ld KiB at the start, %ld after trim", what, start, now);
}

static void *in_thread(void *arg)
{
    size_t nr = SMALL / 10, from = (size_t)(uintptr_t)arg * nr, n;

    for (n = from; n < from + nr; n++) {
        table[n] = malloc(200);
        memset(table[n], 1, 200);
    }
    return NULL;
}

int main(void)
{
    pthread_t thread[4];
    size_t live, n;
    long start, full;

    table = mmap(NULL, SMALL * sizeof *table, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    burst(1000, 64);
    free_in_order(1000);
    malloc_trim(0);
    start = resident_kib();
    CHECK(start > 0, "the kernel does not tell the resident size");

    burst(SMALL, 64);
    full = resident_kib();
    CHECK(full - start > 60000, "a million objects took %ld KiB", full - start);
    free_in_order(SMALL);
    CHECK(malloc_trim(0) >= 0, "malloc_trim");
    expect_near(start, "in order");

    burst(SMALL, 64);
    free_scattered(SMALL);
    malloc_trim(0);
    expect_near(start, "scattered");

    for (n = 1; n <= 4; n++) {
        burst(LARGE, n * MIB - 64 * 1024);
        free_scattered(LARGE);
    }
    burst(300, 100000);
    free_scattered(300);
    malloc_trim(0);
    expect_near(start, "large");

    /* Memory of threads that have ended, freed by this one. */
    for (n = 0; n < 4; n++)
        if (pthread_create(&thread[n], NULL, in_thread, (void *)n))
            exit(2);
    for (n = 0; n < 4; n++)
        pthread_join(thread[n], NULL);
    free_in_order(SMALL / 10 * 4);
    malloc_trim(0);
    expect_near(start, "threads");

    /* What is live must survive a trim. */
    burst(10000, 64);
    for (live = 0; live < 10000; live++)
        fill(table[live], 64, live);
    for (live = 0; live < 10000; live += 2)
        free(table[live]);
    malloc_trim(0);
    for (live = 1; live < 10000; live += 2) {
        CHECK(intact(table[live], 64, live), "object %zu", live);
        free(table[live]);
    }
    return finish("trim");
}
