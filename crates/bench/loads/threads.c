/* The two loads of two threads: prodcons and larson.
 *
 * The calling thread is thread 0; thread 1 lives as long as the process and
 * sleeps at a barrier between two runs, so that a waiting process takes no
 * CPU.
 */
#define _GNU_SOURCE
#include "load.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

static pthread_barrier_t begin, end;
static const struct goal *the_goal;
static uint64_t (*second)(const struct goal *goal);
static uint64_t second_done;
static int second_cpu = -1;

static void *second_thread(void *unused)
{
    (void)unused;
    if (second_cpu >= 0)
        pin(second_cpu);
    for (;;) {
        pthread_barrier_wait(&begin);
        second_done = second(the_goal);
        pthread_barrier_wait(&end);
    }
    return NULL;
}

static void start_second(run_fn *fn, const int *cpus, int nr_cpus)
{
    pthread_t thread;
    second = fn;
    if (nr_cpus >= 2)
        second_cpu = cpus[1];
    pthread_barrier_init(&begin, NULL, 2);
    pthread_barrier_init(&end, NULL, 2);
    if (pthread_create(&thread, NULL, second_thread, NULL) != 0)
        abort();
}

static uint64_t run_both(run_fn *first, const struct goal *goal)
{
    the_goal = goal;
    pthread_barrier_wait(&begin);
    uint64_t done = first(goal);
    pthread_barrier_wait(&end);
    return done + second_done;
}

/* Waits for the other thread: spins, and gives the CPU away if that takes
 * long (a machine with one CPU). */
static void wait_a_little(int *turns)
{
    if (++*turns % 1024 == 0)
        sched_yield();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* prodcons: a ring of 1024 objects with one writer and one reader.  Both
 * publish their place once in 32 objects: the ring's own cache misses would
 * hide the allocator's.
 *
 *     tail <= head <= tail + RING
 */
enum { RING = 1024, BATCH = 32, SIZE = 64 };
static void *ring[RING];
static _Alignas(128) _Atomic uint64_t head; /* objects produced, ever */
static _Alignas(128) _Atomic uint64_t tail; /* objects consumed, ever */
static _Alignas(128) atomic_bool produced_all;

static uint64_t produce(const struct goal *goal)
{
    uint64_t done = 0, at = atomic_load_explicit(&head, memory_order_relaxed);
    do {
        for (int batch = 0; batch < 32; batch++) {
            int turns = 0;
            /* Acquire: pairs with the consumer's release of these places. */
            while (at + BATCH - atomic_load_explicit(&tail, memory_order_acquire) > RING)
                wait_a_little(&turns);
            for (int i = 0; i < BATCH; i++, at++)
                touch(ring[at % RING] = malloc(SIZE));
            atomic_store_explicit(&head, at, memory_order_release);
        }
        done += 32 * BATCH;
    } while (!reached(goal, done));
    /* Release: who sees it sees the last head. */
    atomic_store_explicit(&produced_all, true, memory_order_release);
    return done;
}

/* Its operations are the producer's: returns 0. */
static uint64_t consume(const struct goal *goal)
{
    (void)goal;
    uint64_t at = atomic_load_explicit(&tail, memory_order_relaxed);
    int turns = 0;
    for (;;) {
        bool last = atomic_load_explicit(&produced_all, memory_order_acquire);
        uint64_t to = atomic_load_explicit(&head, memory_order_acquire);
        if (at == to) {
            if (last)
                break;
            wait_a_little(&turns);
            continue;
        }
        for (int i = 0; i < BATCH; i++, at++)
            free(ring[at % RING]);
        atomic_store_explicit(&tail, at, memory_order_release);
    }
    atomic_store_explicit(&produced_all, false, memory_order_relaxed);
    return 0;
}

static void start_prodcons(const int *cpus, int nr_cpus)
{
    start_second(consume, cpus, nr_cpus);
}

static uint64_t run_prodcons(const struct goal *goal)
{
    return run_both(produce, goal);
}

/* larson, after Larson and Krishnan, "Memory allocation for long-running
 * server applications" (1998): a thread replaces objects in random slots of
 * its array, then hands the array on.  Three arrays for two threads: the one
 * that nobody holds lies in `between`, and a thread exchanges its own for it,
 * so that no thread waits.
 */
enum { SLOTS = 1000, SIZES = 4096, TURN = 4096 };
struct slots {
    void *object[SLOTS];
};
static struct slots arrays[3];
static uint16_t sizes[SIZES];
static _Alignas(128) _Atomic(struct slots *) between;
struct worker {
    struct slots *mine;
    uint64_t random;
};
static _Alignas(128) struct worker worker0;
static _Alignas(128) struct worker worker1;

static uint64_t replace(struct worker *w, const struct goal *goal)
{
    /* Each thread does half of a number. */
    struct goal half = {.ops = (goal->ops + 1) / 2, .deadline = goal->deadline};
    uint64_t done = 0, random = w->random;
    struct slots *mine = w->mine;
    do {
        for (int i = 0; i < TURN; i++) {
            uint32_t r = next_random(&random);
            void **slot = &mine->object[(uint64_t)(r >> 12) * SLOTS >> 20];
            free(*slot);
            touch(*slot = malloc(sizes[r % SIZES]));
        }
        done += TURN;
        /* Both: the array's slots, there and back. */
        mine = atomic_exchange_explicit(&between, mine, memory_order_acq_rel);
    } while (!reached(&half, done));
    w->mine = mine;
    w->random = random;
    return done;
}

static uint64_t replace0(const struct goal *goal)
{
    return replace(&worker0, goal);
}

static uint64_t replace1(const struct goal *goal)
{
    return replace(&worker1, goal);
}

static void start_larson(const int *cpus, int nr_cpus)
{
    uint64_t state = 0x8bb84b93962eacc9ull;
    for (int i = 0; i < SIZES; i++)
        sizes[i] = zipf_size(&state);
    for (int a = 0; a < 3; a++)
        for (int i = 0; i < SLOTS; i++)
            touch(arrays[a].object[i] = malloc(sizes[(a * SLOTS + i) % SIZES]));
    worker0 = (struct worker){&arrays[0], next_random(&state) | 1};
    worker1 = (struct worker){&arrays[1], next_random(&state) | 1};
    atomic_init(&between, &arrays[2]);
    start_second(replace1, cpus, nr_cpus);
}

static uint64_t run_larson(const struct goal *goal)
{
    return run_both(replace0, goal);
}

const struct load thread_loads[] = {
    {"prodcons", 2, start_prodcons, run_prodcons},
    {"larson", 2, start_larson, run_larson},
    {NULL, 0, NULL, NULL},
};
