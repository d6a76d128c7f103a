/* Objects on their way home: loads in which most frees go past the sheaves,
 * back into the slabs.
 *
 *   homecoming LOAD SIZE
 *
 * address   a million objects of SIZE bytes, freed in the order of addresses
 * random    the same, freed in a random order
 * churn1    20,000 objects, freed in a random order, 200 times
 * churn2    the same in two threads at once
 * prodcons  one thread allocates 6 million, another frees them in batches of
 *           half a ring of 32,768, scattered
 *
 * It says `NS PEAK AFTER`: the CPU time of all threads for one malloc and free
 * in nanoseconds, and the resident memory in KiB at the peak and after
 * malloc_trim. The program's own arrays are mapped, so that the allocator
 * under test holds nothing but the objects; they are a part of both numbers.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "load.h"

enum {
    MANY = 1000000, /* objects of `address` and `random` */
    ROUNDS = 4,     /* the first warms up, the median of the others counts */
    FEW = 20000,    /* objects of a thread of `churn` */
    CYCLES = 200,
    WARM_CYCLES = 5,
    RING = 1 << 15, /* more than a barn takes */
    PASSED = 6000000,
};

struct result {
    double ns;
    long peak_kib;
};

static uint64_t random_state = 88172645463325252u;

static void die(const char *what)
{
    fprintf(stderr, "homecoming: %s\n", what);
    exit(3);
}

static double clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static long resident_kib(void)
{
    char line[256];
    long kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (!file)
        die("no /proc/self/smaps_rollup");
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "Rss: %ld", &kib) == 1)
            break;
    fclose(file);
    return kib;
}

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        die("no memory");
    return memory;
}

static uint32_t *new_order(uint32_t n)
{
    uint32_t *order = map(n * sizeof *order);
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    return order;
}

static void shuffle(uint32_t *order, uint32_t n)
{
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t j = next_random(&random_state) % (i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

static void *make(size_t size)
{
    void *object = malloc(size);
    if (!object)
        die("malloc failed");
    touch(object);
    return object;
}

static int by_address(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t)*(void *const *)left, b = (uintptr_t)*(void *const *)right;
    return (a > b) - (a < b);
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

enum order { ADDRESS, RANDOM };

/* Grows to MANY objects and shrinks to none. Sorting is not timed. */
static struct result grow_and_shrink(size_t size, enum order how)
{
    struct result result = {0};
    double ns[ROUNDS];
    void **objects = map(MANY * sizeof *objects);
    uint32_t *order = new_order(MANY);
    if (how == RANDOM)
        shuffle(order, MANY);
    for (int round = 0; round < ROUNDS; round++) {
        double start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < MANY; i++)
            objects[i] = make(size);
        ns[round] = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start;
        result.peak_kib = resident_kib();
        if (how == ADDRESS)
            qsort(objects, MANY, sizeof *objects, by_address);
        start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; i < MANY; i++)
            free(objects[order[i]]);
        ns[round] += clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start;
    }
    qsort(ns + 1, ROUNDS - 1, sizeof *ns, by_value);
    result.ns = ns[ROUNDS / 2] / MANY;
    return result;
}

struct churner {
    void **objects;
    uint32_t *order;
    size_t size;
    int cycles;
};

static void *churn(void *argument)
{
    const struct churner *c = argument;
    for (int cycle = 0; cycle < c->cycles; cycle++) {
        for (int i = 0; i < FEW; i++)
            c->objects[i] = make(c->size);
        for (int i = 0; i < FEW; i++)
            free(c->objects[c->order[i]]);
    }
    return NULL;
}

static struct result churn_in(int nr_threads, size_t size)
{
    struct churner churners[2], warm;
    pthread_t threads[2];
    for (int t = 0; t < nr_threads; t++) {
        churners[t] = (struct churner){map(FEW * sizeof(void *)), new_order(FEW), size, CYCLES};
        shuffle(churners[t].order, FEW);
    }
    warm = churners[0];
    warm.cycles = WARM_CYCLES;
    churn(&warm);
    double start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (nr_threads == 1)
        churn(&churners[0]); /* one thread: as in a program that has no other */
    else
        for (int t = 0; t < nr_threads; t++)
            if (pthread_create(&threads[t], NULL, churn, &churners[t]) != 0)
                die("no thread");
    for (int t = 0; nr_threads > 1 && t < nr_threads; t++)
        pthread_join(threads[t], NULL);
    double ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start;
    return (struct result){ns / ((double)FEW * CYCLES * nr_threads), resident_kib()};
}

static void *_Atomic *ring;
static size_t ring_size;
static double used_ns[2];

static void *produce(void *unused)
{
    double start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < PASSED; i++) {
        void *object = make(ring_size);
        while (atomic_load_explicit(&ring[i % RING], memory_order_acquire))
            sched_yield();
        atomic_store_explicit(&ring[i % RING], object, memory_order_release);
    }
    used_ns[0] = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
    return unused;
}

/* Waits for half a ring, and frees it in steps of a prime. */
static void *consume(void *unused)
{
    double start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int first = 0, n; first < PASSED; first += n) {
        const struct timespec nap = {0, 50000};
        n = PASSED - first < RING / 2 ? PASSED - first : RING / 2;
        while (!atomic_load_explicit(&ring[(first + n - 1) % RING], memory_order_acquire))
            nanosleep(&nap, NULL);
        for (int k = 0; k < n; k++) {
            int scattered = n == RING / 2 ? (int)((uint32_t)k * 7919u % (uint32_t)n) : k;
            void *_Atomic *place = &ring[(first + scattered) % RING];
            free(atomic_load_explicit(place, memory_order_relaxed));
            atomic_store_explicit(place, NULL, memory_order_release);
        }
    }
    used_ns[1] = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
    return unused;
}

static struct result producer_and_consumer(size_t size)
{
    pthread_t threads[2];
    ring = map(RING * sizeof *ring);
    ring_size = size;
    if (pthread_create(&threads[0], NULL, produce, NULL) != 0 ||
        pthread_create(&threads[1], NULL, consume, NULL) != 0)
        die("no thread");
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return (struct result){(used_ns[0] + used_ns[1]) / PASSED, resident_kib()};
}

static struct result run(const char *load, size_t size)
{
    if (!strcmp(load, "address"))
        return grow_and_shrink(size, ADDRESS);
    if (!strcmp(load, "random"))
        return grow_and_shrink(size, RANDOM);
    if (!strcmp(load, "churn1"))
        return churn_in(1, size);
    if (!strcmp(load, "churn2"))
        return churn_in(2, size);
    if (!strcmp(load, "prodcons"))
        return producer_and_consumer(size);
    die("no such load");
    return (struct result){0};
}

int main(int argc, char **argv)
{
    size_t size = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (size < sizeof(uint64_t)) {
        fprintf(stderr, "usage: homecoming address|random|churn1|churn2|prodcons SIZE (8 or more)\n");
        return 2;
    }
    struct result result = run(argv[1], size);
    malloc_trim(0);
    printf("%.3f %ld %ld\n", result.ns, result.peak_kib, resident_kib());
    return 0;
}
