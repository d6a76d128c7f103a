/*
 * After a burst, free pages go back while the program does next to nothing: 1000
 * small allocations and frees a second. Of the pages that hold no live object, 90 %
 * are back at the system within a second.
 */
#include "check.h"
#include <malloc.h>
#include <sys/mman.h>
#include <time.h>

enum { PAIRS = 1000, MOST = 6 << 20, PAGE = 4096 };

/* The table is no memory of the allocator's: it would be counted. */
static void **table;
static uint64_t state = 88172645463325252u;
/* Of what a burst has, DECAY_PART's part: of an engine that needs long for many objects less is enough. */
static size_t part = 2;

static size_t any_size(size_t least, size_t most)
{
    return least + next_random(&state) % (most - least + 1);
}

/* Pairs for a second; in each millisecond that was slept too long, the missing ones. */
static void do_little(void)
{
    struct timespec next;
    int n;

    clock_gettime(CLOCK_MONOTONIC, &next);
    for (n = 0; n < PAIRS; n++) {
        void *p = opaque(malloc(any_size(16, 256)));

        *(volatile char *)p = 1;
        free(p);
        next.tv_nsec += 1000000;
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) == EINTR)
            ;
    }
}

/* Of `bytes` in objects of so many bytes each, one in `keep` stays live (0: none). */
static void burst(const char *what, size_t bytes, size_t least, size_t most, size_t keep)
{
    size_t nr = 0, sum = 0, n, other, live_pages = 0;
    long begin, full, free_kib, left;
    void *p;

    bytes /= part;
    malloc_trim(0);
    begin = resident_kib();
    while (sum < bytes && nr < MOST) {
        size_t size = any_size(least, most);

        table[nr] = malloc(size);
        if (!table[nr])
            abort();
        memset(table[nr], 1, size);
        if (keep && nr % keep == 0)
            live_pages += (((uintptr_t)table[nr] + size - 1) / PAGE) -
                          (uintptr_t)table[nr] / PAGE + 1;
        sum += size;
        nr++;
    }
    full = resident_kib();
    /* In no order, so that each slab empties late. */
    for (n = 0; n < nr; n++)
        if (keep && n % keep == 0)
            table[n] = (void *)((uintptr_t)table[n] | 1);
    for (n = nr - 1; n > 0; n--) {
        other = next_random(&state) % (n + 1);
        p = table[n], table[n] = table[other], table[other] = p;
    }
    for (n = 0; n < nr; n++)
        if (!((uintptr_t)table[n] & 1))
            free(table[n]);
    do_little();
    left = resident_kib() - begin - (long)(live_pages * (PAGE / 1024));
    free_kib = full - begin - (long)(live_pages * (PAGE / 1024));
    if (getenv("DECAY_TELLS"))
        fprintf(stderr, "%s: %ld KiB without a live object, %ld left\n", what, free_kib, left);
    CHECK(left * 10 <= free_kib, "%s: of %ld KiB, %ld are left after a second", what, free_kib,
          left);
    for (n = 0; n < nr; n++)
        if ((uintptr_t)table[n] & 1)
            free((void *)((uintptr_t)table[n] & ~(uintptr_t)1));
}

int main(void)
{
    table = mmap(NULL, MOST * sizeof *table, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(resident_kib() > 0, "the kernel does not tell the resident size");
    if (getenv("DECAY_PART"))
        part = strtoul(getenv("DECAY_PART"), NULL, 10);
    burst("small", (size_t)300 << 20, 64, 64, 0);
    burst("mixed", (size_t)300 << 20, 16, 2000, 0);
    burst("large", (size_t)500 << 20, 20000, 200000, 0);
    burst("some live", (size_t)300 << 20, 1000, 30000, 4000);
    return finish("decay");
}
