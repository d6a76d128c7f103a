/*
 * A process that is not young: before the program begins, 20,000 allocations of mixed
 * sizes are made, large blocks and four threads included, and most of them freed in
 * mixed order. Preloaded in front of the library; it defines no function of malloc's.
 * OLD_PROCESS_LARGEST=BYTES: none is larger.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 20000, KEPT = 1500, THREADS = 4, OF_A_THREAD = 2000 };

static size_t largest = 4u << 20;

/* What stays live until the process ends. */
static void *stays[THREADS + 1][KEPT];

static uint32_t next(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

static size_t some_size(uint32_t *random)
{
    uint32_t r = next(random);

    if (r % 400 == 0)
        return (1u << 20) + next(random) % (3u << 20);
    if (r % 100 == 0)
        return 33000 + next(random) % 300000;
    return 1 + next(random) % (r % 8 == 0 ? 20000u : 700u);
}

static void allocate(unsigned which, int calls)
{
    uint32_t random = 17 + which;
    void **kept = stays[which];

    for (int n = 0; n < calls; n++) {
        unsigned at = next(&random) % KEPT;
        size_t size = some_size(&random) % largest + 1;

        free(kept[at]);
        kept[at] = malloc(size);
        if (kept[at])
            memset(kept[at], 3, size);
    }
    for (unsigned n = 0; n < KEPT; n++)
        if (next(&random) % 8) {
            unsigned at = next(&random) % KEPT;

            free(kept[at]);
            kept[at] = NULL;
        }
}

static void *in_thread(void *which)
{
    allocate((unsigned)(uintptr_t)which, OF_A_THREAD);
    return NULL;
}

__attribute__((constructor)) static void grow_old(void)
{
    pthread_t thread[THREADS];
    const char *asked = getenv("OLD_PROCESS_LARGEST");
    int nr = 0;

    if (asked)
        largest = strtoul(asked, NULL, 10);
    for (uintptr_t which = 1; which <= THREADS; which++)
        nr += pthread_create(&thread[nr], NULL, in_thread, (void *)which) == 0;
    allocate(0, CALLS - THREADS * OF_A_THREAD);
    while (nr > 0)
        pthread_join(thread[--nr], NULL);
}
