/* tenth: objects of all sizes in threads that rarely free each other's.
 *
 * Sizes are even in their logarithm, from 8 bytes to 16 KiB, as in a program that
 * has strings, nodes and buffers. One free in ten is of an object that another
 * thread allocated: it travels through a mailbox of one object a thread.
 */
#include "life.h"

#include <stdatomic.h>

enum { THREADS = 4, OBJECTS = 3000, STEPS = 500000, OCTAVES = 11, REMOTE = 10 };

/* Mailboxes hold slots that are mapped; whoever takes one fills it with his own. */
struct worker {
    struct slot *table;
    _Atomic(struct slot *) *mail; /* of all threads */
    unsigned me;
    uint64_t steps;
    struct owner owner;
};

static uint32_t some_size(struct owner *owner)
{
    uint32_t base = 8u << below(owner, OCTAVES);
    return base + below(owner, base) + 1;
}

static void *work(void *context)
{
    struct worker *me = context;
    struct slot *spare = map_table(1, sizeof *spare);
    for (uint64_t i = 0; i < me->steps; i++) {
        struct slot *slot = &me->table[below(&me->owner, OBJECTS)];
        if (slot->at && i % REMOTE == 0) {
            /* To the next thread, and what lay in its mailbox to us. */
            *spare = *slot;
            slot->at = NULL;
            spare = atomic_exchange(&me->mail[(me->me + i / REMOTE) % THREADS], spare);
            empty(spare);
        } else {
            empty(slot);
        }
        fill(slot, &me->owner, some_size(&me->owner));
    }
    empty_all(me->table, OBJECTS);
    empty(spare);
    unmap_table(spare, 1, sizeof *spare);
    return NULL;
}

static uint64_t run(const struct job *job)
{
    struct worker workers[THREADS];
    _Atomic(struct slot *) mail[THREADS];
    uint64_t steps = scaled(job, STEPS);
    for (unsigned i = 0; i < THREADS; i++) {
        atomic_init(&mail[i], map_table(1, sizeof(struct slot)));
        workers[i] = (struct worker){
            .table = map_table(OBJECTS, sizeof(struct slot)),
            .mail = mail,
            .me = i,
            .steps = steps,
            .owner = new_owner(job, i),
        };
    }
    run_threads(THREADS, work, workers, sizeof *workers);
    for (unsigned i = 0; i < THREADS; i++) {
        struct slot *left = atomic_load(&mail[i]);
        empty(left);
        unmap_table(left, 1, sizeof *left);
        unmap_table(workers[i].table, OBJECTS, sizeof(struct slot));
    }
    return THREADS * steps;
}

const struct load load_tenth = {
    .name = "tenth",
    .threads = THREADS,
    .words = "4 threads replace 8 bytes to 16 KiB, even in their logarithm; one free in ten is "
             "another thread's (27 MB live)",
    .run = run,
};
