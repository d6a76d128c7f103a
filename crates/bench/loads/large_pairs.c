/* Pairs of malloc and free of large blocks: `large_pairs SHAPE KIB THREADS` prints millions of pairs
 * in a second of a thread's CPU time, times the threads. `ci/large-pairs-by-hand` has the shapes. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAIRS = 1000000, RANDOM_PAIRS = 200000, HELD = 4, KEPT = 8, MOST_THREADS = 16 };

static const char *shape;
static size_t size;
static int threads;
static pthread_barrier_t begin;
static _Atomic(char *) box[MOST_THREADS];

static double cpu_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static char *take(size_t bytes)
{
    volatile char *block = malloc(bytes);

    if (!block)
        abort();
    block[0] = 1;
    return (char *)block;
}

static void hold(int fifo)
{
    char *held[HELD];
    long i;
    int n;

    for (i = 0; i < PAIRS / HELD; i++) {
        for (n = 0; n < HELD; n++)
            held[n] = take(size);
        for (n = 0; n < HELD; n++)
            free(held[fifo ? n : HELD - 1 - n]);
    }
}

static void replace(unsigned long random, int any)
{
    static const size_t kib[8] = {20, 40, 48, 64, 100, 130, 200, 400};
    char *kept[KEPT] = {0};
    long i;
    int n;

    for (i = 0; i < RANDOM_PAIRS; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        n = (int)(random >> 8 & (KEPT - 1));
        free(kept[n]);
        kept[n] = take(any ? (16 << 10) + (random >> 20) % (496 << 10) : kib[random >> 20 & 7] << 10);
    }
    for (n = 0; n < KEPT; n++)
        free(kept[n]);
}

static long pairs(void)
{
    return strcmp(shape, "set") && strcmp(shape, "any") ? PAIRS : RANDOM_PAIRS;
}

static void *run(void *argument)
{
    const long number = (long)argument;
    double seconds;
    long i;

    pthread_barrier_wait(&begin);
    seconds = cpu_seconds();
    if (!strcmp(shape, "one"))
        for (i = 0; i < PAIRS; i++)
            free(take(size));
    else if (!strcmp(shape, "lifo") || !strcmp(shape, "fifo"))
        hold(shape[0] == 'f');
    else if (!strcmp(shape, "handed"))
        for (i = 0; i < PAIRS; i++)
            free(atomic_exchange(&box[(number + 1) % threads], take(size)));
    else
        replace(88172645463325252ul + (unsigned long)number, !strcmp(shape, "any"));
    seconds = cpu_seconds() - seconds;
    return (void *)(long)(seconds * 1e9);
}

int main(int argc, char **argv)
{
    pthread_t thread[MOST_THREADS];
    double seconds = 0;
    void *took;
    long n;

    if (argc != 4)
        return 2;
    shape = argv[1];
    size = (size_t)atol(argv[2]) << 10;
    threads = atoi(argv[3]);
    if (threads < 1 || threads > MOST_THREADS)
        return 2;
    pthread_barrier_init(&begin, NULL, (unsigned)threads);
    for (n = 0; n < threads; n++)
        if (pthread_create(&thread[n], NULL, run, (void *)n))
            return 1;
    for (n = 0; n < threads; n++) {
        pthread_join(thread[n], &took);
        seconds += (double)(long)took / 1e9;
    }
    printf("%.2f\n", (double)pairs() * threads * threads / seconds / 1e6);
    return 0;
}
