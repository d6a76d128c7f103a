/* scratch and thrash: two threads write small objects at the same time.
 *
 * After Berger, McKinley, Blumofe and Wilson, "Hoard: A Scalable Memory
 * Allocator for Multithreaded Applications", ASPLOS 2000 (cache-scratch and
 * cache-thrash). An allocator that gives neighbours in a cache line to two
 * threads makes them wait for each other. thrash shows whether it does so by
 * itself; scratch whether it does so when one thread allocated the objects and
 * handed every other one to each.
 *
 * The programs there have one object a thread; here each thread walks over
 * many, in step with the other, so that more than one line is tried.
 */
#include "life.h"

#include <pthread.h>

enum { THREADS = 2, OBJECTS = 160000, LEAST = 12, MOST = 32 };
enum { STEP = 4000, AGAIN = 3, WRITES = 12 };

struct walker {
    struct slot *slots;
    struct owner owner;
    uint64_t rounds;
    pthread_barrier_t *in_step;
};

/* By volatile writes: they are the load. */
static void write_often(const struct slot *slot)
{
    volatile unsigned char *bytes = slot->at;
    for (unsigned k = 0; k < WRITES; k++)
        bytes[4] = (unsigned char)(bytes[4] + k); /* between the marks */
}

/* Frees what it was handed and works in what it gets instead. */
static void *scratch(void *context)
{
    struct walker *me = context;
    for (unsigned i = 0; i < OBJECTS; i++) {
        if (i % STEP == 0)
            pthread_barrier_wait(me->in_step);
        for (unsigned again = 0; again < AGAIN; again++) {
            empty(&me->slots[i]);
            fill(&me->slots[i], &me->owner, between(&me->owner, LEAST, MOST));
            write_often(&me->slots[i]);
        }
        empty(&me->slots[i]);
    }
    return NULL;
}

/* Allocates at the same time as the other, then writes, then frees. */
static void *thrash(void *context)
{
    struct walker *me = context;
    for (uint64_t round = 0; round < me->rounds; round++) {
        pthread_barrier_wait(me->in_step);
        for (unsigned i = 0; i < OBJECTS; i++)
            fill(&me->slots[i], &me->owner, between(&me->owner, LEAST, MOST));
        for (unsigned i = 0; i < OBJECTS; i++) {
            if (i % STEP == 0)
                pthread_barrier_wait(me->in_step);
            for (unsigned again = 0; again < AGAIN; again++)
                write_often(&me->slots[i]);
        }
        empty_all(me->slots, OBJECTS);
    }
    return NULL;
}

static void prepare(const struct job *job, struct walker *walkers, pthread_barrier_t *in_step,
                    uint64_t rounds)
{
    pthread_barrier_init(in_step, NULL, THREADS);
    for (unsigned t = 0; t < THREADS; t++)
        walkers[t] = (struct walker){
            .slots = map_table(OBJECTS, sizeof(struct slot)),
            .owner = new_owner(job, t),
            .rounds = rounds,
            .in_step = in_step,
        };
}

static void dismiss(struct walker *walkers, pthread_barrier_t *in_step)
{
    for (unsigned t = 0; t < THREADS; t++)
        unmap_table(walkers[t].slots, OBJECTS, sizeof(struct slot));
    pthread_barrier_destroy(in_step);
}

enum { SCRATCH_ROUNDS = 6 };

static uint64_t run_scratch(const struct job *job)
{
    struct walker walkers[THREADS];
    pthread_barrier_t in_step;
    struct owner host = new_owner(job, THREADS);
    uint64_t rounds = scaled(job, SCRATCH_ROUNDS);
    prepare(job, walkers, &in_step, 1);
    for (uint64_t round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < OBJECTS; i++)
            for (unsigned t = 0; t < THREADS; t++)
                fill(&walkers[t].slots[i], &host, between(&host, LEAST, MOST));
        run_threads(THREADS, scratch, walkers, sizeof *walkers);
    }
    dismiss(walkers, &in_step);
    return rounds * THREADS * OBJECTS * (1 + AGAIN);
}

const struct load load_scratch = {
    .name = "scratch",
    .threads = THREADS,
    .words = "one thread hands every other object of 12 to 32 bytes to each of two, which "
             "free it and write in what they get instead (9 MB live)",
    .run = run_scratch,
};

enum { THRASH_ROUNDS = 16 };

static uint64_t run_thrash(const struct job *job)
{
    struct walker walkers[THREADS];
    pthread_barrier_t in_step;
    uint64_t rounds = scaled(job, THRASH_ROUNDS);
    prepare(job, walkers, &in_step, rounds);
    run_threads(THREADS, thrash, walkers, sizeof *walkers);
    dismiss(walkers, &in_step);
    return rounds * THREADS * OBJECTS;
}

const struct load load_thrash = {
    .name = "thrash",
    .threads = THREADS,
    .words = "two threads allocate 12 to 32 bytes at the same time and write them often (9 "
             "MB live)",
    .run = run_thrash,
};
