/* How long single calls of malloc and free take:
 *
 *   latency thread|tsc|fifo THREADS PAIRS [CPU]...
 *
 * Each of THREADS threads makes PAIRS pairs, of mixed sizes, in cycles: an
 * array of objects is filled, random ones are replaced, all are freed in
 * random order. If there are several threads, some of the frees are of other
 * threads' objects (those of threads 16 apart count as one's own). Objects are
 * written outside of what is timed.
 *
 * `thread` reads CLOCK_THREAD_CPUTIME_ID before and after each call: time in
 * which the thread did not run is not counted. `tsc` reads the processor's
 * time stamp counter (x86-64), which costs less and counts everything. With
 * `fifo` it is read by the first thread alone, which has SCHED_FIFO and rests
 * often: it preempts the others, which make pairs until it ends, also where
 * they hold locks. Exits with 4 where that policy is not permitted.
 * Every fourth pair two readings are made with nothing between them: what the
 * clock itself takes. It says, times in nanoseconds:
 *
 *   empty|malloc|free|handed COUNT P50 P99 P99.9 P99.99 MAX N1 N2 N4...
 *   faults MINOR SWITCHES
 *
 * where `handed` is a free of what another thread allocated, `free` of one's
 * own, and N1, N2... are the calls of 1 to 2 us, 2 to 4, and so on, less the
 * clock's median: those that did work for others. The last line has the
 * process's minor page faults and involuntary context switches.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "histogram.h"
#include "load.h"

enum { MAX_THREADS = 64, SLOTS = 20000, CHURN = 3 * SLOTS, SHARED = 1024 };
enum { PAIRS_PER_REST = 64, REST_NS = 200000 };
enum { EMPTY, MALLOC, FREE, HANDED, KINDS };
/* Powers of two of microseconds; the last one is open. */
enum { SLOW_BINS = 11 };
/* What malloc returns has these bits free: who allocated it, of up to 16. */
enum { OWNERS = 16 };

static const char *const kind_names[KINDS] = {"empty", "malloc", "free", "handed"};

struct thread {
    pthread_t id;
    uint64_t random, pairs;
    void *slots[SLOTS];
    struct histogram histograms[KINDS];
};

static struct thread threads[MAX_THREADS];
static struct histogram sums[KINDS];
static _Atomic(void *) shared[SHARED];
static pthread_barrier_t begin;
static bool by_tsc, several, one_is_first;
static atomic_bool over;

static void die(const char *what)
{
    (void)!write(2, "latency: ", 9);
    (void)!write(2, what, strlen(what));
    (void)!write(2, "\n", 1);
    _exit(3);
}

static uint64_t monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t reading(void)
{
    if (by_tsc)
        return tsc();
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static size_t octave(struct thread *t, size_t least, unsigned octaves)
{
    size_t from = least << next_random(&t->random) % octaves;
    return from + next_random(&t->random) % from;
}

/* Of eight, seven up to 1 KiB and one up to 32 KiB; of 512, one up to 1 MiB. */
static size_t drawn(struct thread *t)
{
    uint32_t r = next_random(&t->random) % 512;
    return r == 0 ? octave(t, 64 << 10, 4) : r % 8 ? octave(t, 16, 6) : octave(t, 1024, 5);
}

static uintptr_t owner_of(const struct thread *t)
{
    return (uintptr_t)(t - threads) % OWNERS;
}

static void *timed_malloc(struct thread *t)
{
    size_t size = drawn(t);
    uint64_t start = reading();
    void *object = malloc(size);
    uint64_t end = reading();
    count(&t->histograms[MALLOC], end - start);
    if (!object)
        die("out of memory");
    touch(object);
    object = (char *)object + owner_of(t);
    if (t->pairs-- % 4 == 0) {
        start = reading();
        end = reading();
        count(&t->histograms[EMPTY], end - start);
    }
    if (one_is_first && t == threads && t->pairs % PAIRS_PER_REST == 0)
        nanosleep(&(struct timespec){0, REST_NS}, NULL);
    return object;
}

static bool goes_on(const struct thread *t)
{
    return t->pairs && !atomic_load_explicit(&over, memory_order_relaxed);
}

static void timed_free(struct thread *t, void *object)
{
    /* One of eight goes to some other thread, for one of that thread's. */
    if (several && next_random(&t->random) % 8 == 0)
        object = atomic_exchange(&shared[next_random(&t->random) % SHARED], object);
    if (!object)
        return;
    uintptr_t owner = (uintptr_t)object % OWNERS;
    int kind = owner == owner_of(t) ? FREE : HANDED;
    object = (char *)object - owner;
    uint64_t start = reading();
    free(object);
    uint64_t end = reading();
    count(&t->histograms[kind], end - start);
}

static void *work(void *argument)
{
    struct thread *t = argument;
    pthread_barrier_wait(&begin);
    while (goes_on(t)) {
        uint32_t nr = 0;
        while (nr < SLOTS && goes_on(t))
            t->slots[nr++] = timed_malloc(t);
        for (int i = 0; i < CHURN && goes_on(t); i++) {
            uint32_t at = next_random(&t->random) % nr;
            timed_free(t, t->slots[at]);
            t->slots[at] = timed_malloc(t);
        }
        while (nr) {
            uint32_t at = next_random(&t->random) % nr;
            timed_free(t, t->slots[at]);
            t->slots[at] = t->slots[--nr];
        }
    }
    return NULL;
}

static void be_first(void)
{
    struct sched_param lowest = {.sched_priority = 1};
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest) != 0) {
        (void)!write(2, "latency: SCHED_FIFO is not permitted\n", 37);
        _exit(4);
    }
}

static void count_slow(const struct histogram *h, double unit_ns, uint64_t slow[SLOW_BINS])
{
    double clock = percentile(&sums[EMPTY], 0.5);

    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        double us = (value_of(bucket) - clock) * unit_ns / 1000;
        int bin = -1;
        for (; bin + 1 < SLOW_BINS && us >= 1; us /= 2)
            bin++;
        if (bin >= 0)
            slow[bin] += h->buckets[bucket];
    }
}

static void tell(const char *name, const struct histogram *h, double unit_ns)
{
    static const double shares[] = {0.5, 0.99, 0.999, 0.9999};
    uint64_t slow[SLOW_BINS] = {0};
    char line[500];
    int n = snprintf(line, sizeof line, "%s %" PRIu64, name, h->count);
    for (int i = 0; i < 4; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, " %.1f",
                      percentile(h, shares[i]) * unit_ns);
    n += snprintf(line + n, sizeof line - (size_t)n, " %.1f", (double)h->max * unit_ns);
    count_slow(h, unit_ns, slow);
    for (int i = 0; i < SLOW_BINS; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, " %" PRIu64, slow[i]);
    line[n++] = '\n';
    if (write(1, line, (size_t)n) != n)
        _exit(3);
}

static void bind(int nr, char **cpus)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < nr; i++)
        CPU_SET(atoi(cpus[i]), &set);
    if (nr && sched_setaffinity(0, sizeof set, &set) != 0)
        die("sched_setaffinity failed");
}

int main(int argc, char **argv)
{
    if (argc < 4)
        die("usage: latency thread|tsc|fifo THREADS PAIRS [CPU]...");
    one_is_first = strcmp(argv[1], "fifo") == 0;
    by_tsc = one_is_first || strcmp(argv[1], "tsc") == 0;
#ifndef __x86_64__
    if (by_tsc)
        die("no time stamp counter on this processor");
#endif
    int nr_threads = atoi(argv[2]);
    uint64_t pairs = strtoull(argv[3], NULL, 10);
    if (nr_threads < 1 || nr_threads > MAX_THREADS || !pairs)
        die("1 to 64 threads, and a pair at least");
    several = nr_threads > 1;
    bind(argc - 4, argv + 4);

    pthread_barrier_init(&begin, NULL, (unsigned)nr_threads);
    uint64_t start_ns = monotonic_ns(), start_tsc = tsc();
    for (int i = 0; i < nr_threads; i++) {
        struct thread *t = &threads[i];
        t->random = 0x9e3779b97f4a7c15ull + (uint64_t)i;
        t->pairs = i && one_is_first ? UINT64_MAX : pairs;
        if (i && pthread_create(&t->id, NULL, work, t) != 0)
            die("no thread");
    }
    if (one_is_first)
        be_first();
    work(&threads[0]);
    over = one_is_first;
    for (int i = 1; i < nr_threads; i++)
        pthread_join(threads[i].id, NULL);
    double elapsed_ns = (double)(monotonic_ns() - start_ns);
    double unit_ns = by_tsc ? elapsed_ns / (double)(tsc() - start_tsc) : 1.0;
    for (int i = 0; i < SHARED; i++)
        free((char *)shared[i] - (uintptr_t)shared[i] % OWNERS);

    for (int kind = 0; kind < KINDS; kind++) {
        for (int i = 0; i < (one_is_first ? 1 : nr_threads); i++)
            add(&sums[kind], &threads[i].histograms[kind]);
        tell(kind_names[kind], &sums[kind], unit_ns);
    }
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) != 0)
        die("getrusage failed");
    char line[80];
    int n = snprintf(line, sizeof line, "faults %ld %ld\n", used.ru_minflt, used.ru_nivcsw);
    if (write(1, line, (size_t)n) != n)
        _exit(3);
    _exit(0);
}
