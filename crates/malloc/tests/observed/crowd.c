/* Threads that allocate and free objects of 512 bytes without end, while what all of
 * them hold stays within narrow bounds: OBJECTS, and up to BURST more a thread.
 *   crowd FILE THREADS OBJECTS BURST
 * The first half are pairs: one allocates on one CPU what the other frees on another, so
 * that sheaves are exchanged all the time. The others free each other's objects.
 * Each thread counts what it allocated less what it freed in a file that is mapped: one
 * word a cache line. Threads stand still until a line comes on stdin; OBJECTS are there
 * when "done" is printed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 512, MOST_BURST = 64, MOST_THREADS = 64 };

static volatile uint64_t *counts;
static _Atomic(void *) *slots;
static int threads, objects, burst;
static pthread_barrier_t barrier;
/* What a pair hands over: the number of a thread is that of its ring, less its last bit. */
static struct ring {
    void *objects[MOST_BURST];
    uint64_t put __attribute__((aligned(64)));
    uint64_t taken __attribute__((aligned(64)));
} rings[MOST_THREADS];

/* The first or the last of the CPUs that we may use. */
static void stay_on(int last)
{
    cpu_set_t may, one;
    int cpu, chosen = -1;

    sched_getaffinity(0, sizeof may, &may);
    for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &may) && (last || chosen < 0))
            chosen = cpu;
    CPU_ZERO(&one);
    CPU_SET(chosen, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void hand_over(struct ring *ring, volatile uint64_t *count)
{
    stay_on(0);
    for (;;) {
        while (ring->put - __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE) >= burst)
            sched_yield();
        ring->objects[ring->put % burst] = malloc(SIZE);
        ++*count;
        __atomic_store_n(&ring->put, ring->put + 1, __ATOMIC_RELEASE);
    }
}

static void take_over(struct ring *ring, volatile uint64_t *count)
{
    stay_on(1);
    for (;;) {
        while (__atomic_load_n(&ring->put, __ATOMIC_ACQUIRE) == ring->taken)
            sched_yield();
        free(ring->objects[ring->taken % burst]);
        --*count;
        __atomic_store_n(&ring->taken, ring->taken + 1, __ATOMIC_RELEASE);
    }
}

static void *thread(void *number)
{
    volatile uint64_t *count = &counts[8 * (intptr_t)number];
    struct ring *ring = &rings[(intptr_t)number & ~1];
    uint64_t state = 88172645463325252u + (intptr_t)number;
    void *fresh[MOST_BURST];
    int i, n;

    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (i = (intptr_t)number; i < objects; i += threads) {
        slots[i] = malloc(SIZE);
        ++*count;
    }
    pthread_barrier_wait(&barrier);
    if ((intptr_t)number < threads / 2 && (intptr_t)number % 2)
        take_over(ring, count);
    if ((intptr_t)number < threads / 2)
        hand_over(ring, count);
    for (;;) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        n = state % burst + 1;
        for (i = 0; i < n; i++) {
            fresh[i] = malloc(SIZE);
            ++*count;
        }
        for (i = 0; i < n; i++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            free(__atomic_exchange_n((void **)&slots[state % objects], fresh[i],
                                     __ATOMIC_ACQ_REL));
            --*count;
        }
    }
}

int main(int argc, char **argv)
{
    static char out[BUFSIZ];
    int fd = open(argv[1], O_RDWR);
    pthread_t id;
    intptr_t i;

    if (argc != 5)
        return 2;
    setvbuf(stdout, out, _IOLBF, sizeof out);
    threads = atoi(argv[2]);
    objects = atoi(argv[3]);
    burst = atoi(argv[4]);
    counts = mmap(0, 64 * threads, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    slots = mmap(0, sizeof *slots * objects, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED || slots == MAP_FAILED || burst > MOST_BURST ||
        threads > MOST_THREADS)
        return 1;
    pthread_barrier_init(&barrier, 0, threads + 1);
    for (i = 0; i < threads; i++)
        pthread_create(&id, 0, thread, (void *)i);
    pthread_barrier_wait(&barrier);
    puts("ready");
    (void)read(0, &i, 1);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    puts("done");
    pthread_join(id, 0);
    return 0;
}
