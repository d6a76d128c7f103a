/* Cache lines in which two threads have objects, and what writing there takes.
 *
 * After Berger, McKinley, Blumofe and Wilson, "Hoard: A Scalable Memory Allocator for Multithreaded
 * Applications", ASPLOS 2000. Active: the threads allocate in turn, one object each, so that
 * neighbours go to two threads if the allocator has no memory for each. Passive (two stages): one
 * thread allocates and hands an object to each in turn; each frees all that it was handed, in turn
 * with the others, and allocates as many, in turn again: what was freed has neighbours of another.
 *
 * `lines` are those that hold live objects of any thread, of them `shared` those of two and `apart`
 * those of two that are on other CPUs: by addresses and the sizes asked for, so that they repeat.
 * Then the first thread writes its objects, a step of some after another and each of them often;
 * then all do, in step: those allocated at about the same time are written at the same time.
 * Counted is a thread's CPU time, and so not what others take from it. The scale multiplies the
 * objects: how often each is written stays, for the time of a write. The output is
 *
 *   ops N
 *   lines LINES SHARED APART alone PS together PS
 *
 * with picoseconds a write. --plant shared has objects from an array, in turn, and --plant apart a
 * line for each, in place of malloc's.
 */
#include "handed.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, LEAST = 12, MOST = 32, STEPS = 200, STEP = 60, WRITES = 10000, PLANTED = 32 };
enum { SPINS = 200 };

struct writer {
    sem_t turn, *next_turn; /* the next writer's */
    struct slot *slots, *handed;
    struct owner owner;
    const struct order *order;
    uint64_t number, nr, together_ns, alone_ns;
};

static _Atomic uint64_t met;
static pthread_barrier_t allocated;
static char *planted;
static _Atomic uint64_t next_planted;

/* What follows up to `end_turn` is done by one writer after another. A writer sleeps soon, as one that
 * yields on a busy machine waits for whole time slices of others. */
static void begin_turn(struct writer *me)
{
    for (unsigned spin = 0; sem_trywait(&me->turn); spin++)
        if (spin >= SPINS && !sem_wait(&me->turn))
            return;
}

static void end_turn(struct writer *me)
{
    sem_post(me->next_turn);
}

/* A barrier at which no thread sleeps: to be woken takes as long as a step's writes. */
static void meet(uint64_t threads)
{
    uint64_t nth = atomic_fetch_add(&met, 1), all = (nth / threads + 1) * threads;
    for (unsigned spin = 0; atomic_load(&met) < all; spin++)
        if (spin % 256 == 255)
            sched_yield();
}

static void put(struct writer *me, struct slot *slot)
{
    uint32_t size = between(&me->owner, LEAST, MOST);
    enum plant plant = me->order->plant;
    if (plant == NOTHING)
        fill(slot, &me->owner, size);
    else
        hold(slot, planted + atomic_fetch_add(&next_planted, 1) * (plant == APART ? LINE : PLANTED),
             size, next_mark(&me->owner));
}

static void drop(struct writer *me, struct slot *slot)
{
    if (me->order->plant == NOTHING)
        return empty(slot);
    check_ends(slot->at, slot->size, slot->mark);
    slot->at = NULL;
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Each object of a step, again and again; by volatile writes between the marks: they are the load. */
static uint64_t write_often(const struct writer *me, uint64_t first)
{
    volatile unsigned char *bytes[STEP];
    for (uint64_t i = 0; i < STEP; i++)
        bytes[i] = (unsigned char *)me->slots[first + i].at + 5;
    uint64_t begin = cpu_ns();
    for (uint64_t k = 0; k < WRITES; k++)
        for (uint64_t i = 0; i < STEP; i++)
            *bytes[i] = (unsigned char)(*bytes[i] + k);
    return cpu_ns() - begin;
}

static void *write_own(void *context)
{
    struct writer *me = context;
    uint64_t all = me->order->threads;
    pin(me->number);
    for (uint64_t i = 0; me->order->stages > 1 && i < me->nr; i++) {
        begin_turn(me);
        drop(me, &me->handed[i]);
        end_turn(me);
    }
    for (uint64_t i = 0; i < me->nr; i++) {
        begin_turn(me);
        put(me, &me->slots[i]);
        end_turn(me);
    }
    pthread_barrier_wait(&allocated);
    if (me->number == 0)
        for (uint64_t i = 0; i < me->nr; i += STEP)
            me->alone_ns += write_often(me, i);
    for (uint64_t i = 0; i < me->nr; i += STEP) {
        meet(all);
        me->together_ns += write_often(me, i);
    }
    return NULL;
}

/* A line and its thread. */
struct seat {
    uint64_t line, thread;
};

static int by_line(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;
    return x->line != y->line ? (x->line > y->line) - (x->line < y->line)
                              : (x->thread > y->thread) - (x->thread < y->thread);
}

/* In place, as qsort may call malloc: Williams, "Algorithm 232: Heapsort", 1964. */
static void sort(struct seat *seats, uint64_t nr)
{
    for (uint64_t from = nr / 2, end = nr; end > 1;) {
        struct seat seat;
        if (from > 0) {
            seat = seats[--from];
        } else {
            seat = seats[--end];
            seats[end] = seats[0];
        }
        uint64_t at = from, child;
        while ((child = 2 * at + 1) < end) {
            if (child + 1 < end && by_line(&seats[child], &seats[child + 1]) < 0)
                child++;
            if (by_line(&seat, &seats[child]) >= 0)
                break;
            seats[at] = seats[child];
            at = child;
        }
        seats[at] = seat;
    }
}

static void count_lines(const struct writer *writers, uint64_t threads, uint64_t counts[3])
{
    uint64_t nr = 0, cpus = count_cpus(), most = 2 * threads * writers[0].nr;
    struct seat *seats = map_table(most, sizeof *seats);
    for (uint64_t t = 0; t < threads; t++)
        for (uint64_t i = 0; i < writers[t].nr; i++) {
            const struct slot *slot = &writers[t].slots[i];
            uint64_t first = (uintptr_t)slot->at / LINE;
            uint64_t last = ((uintptr_t)slot->at + slot->size - 1) / LINE;
            for (uint64_t line = first; line <= last; line++)
                seats[nr++] = (struct seat){line, t};
        }
    sort(seats, nr);
    for (uint64_t i = 0, end; i < nr; i = end) {
        bool shared = false, apart = false;
        for (end = i; end < nr && seats[end].line == seats[i].line; end++) {
            shared |= seats[end].thread != seats[i].thread;
            apart |= seats[end].thread % cpus != seats[i].thread % cpus;
        }
        counts[0]++;
        counts[1] += shared;
        counts[2] += apart;
    }
    unmap_table(seats, most, sizeof *seats);
}

void share_lines(const struct order *order)
{
    static struct writer writers[MOST_THREADS];
    struct job job = {.scale = order->scale, .seed = 1};
    uint64_t threads = order->threads, nr = STEP * scaled(&job, STEPS / threads), counts[3] = {0};
    pthread_barrier_init(&allocated, NULL, (unsigned)threads);
    planted = order->plant ? map_table(3 * threads * nr, LINE) : NULL;
    for (uint64_t t = 0; t < threads; t++) {
        writers[t] = (struct writer){
            .next_turn = &writers[(t + 1) % threads].turn,
            .slots = map_table(nr, sizeof(struct slot)),
            .handed = map_table(nr, sizeof(struct slot)),
            .owner = new_owner(&job, t),
            .order = order,
            .number = t,
            .nr = nr,
        };
        sem_init(&writers[t].turn, 0, t == 0);
    }
    if (order->stages > 1)
        for (uint64_t i = 0; i < nr; i++)
            for (uint64_t t = 0; t < threads; t++)
                put(&writers[t], &writers[t].handed[i]);
    run_threads((unsigned)threads, write_own, writers, sizeof *writers);
    count_lines(writers, threads, counts);
    uint64_t together = 0, written = nr * WRITES;
    for (uint64_t t = 0; t < threads; t++) {
        together += writers[t].together_ns;
        for (uint64_t i = 0; i < nr; i++)
            drop(&writers[t], &writers[t].slots[i]);
    }
    dprintf(STDOUT_FILENO,
            "ops %" PRIu64 "\nlines %" PRIu64 " %" PRIu64 " %" PRIu64 " alone %" PRIu64
            " together %" PRIu64 "\n",
            threads * written, counts[0], counts[1], counts[2],
            writers[0].alone_ns * 1000 / written, together * 1000 / written / threads);
}
