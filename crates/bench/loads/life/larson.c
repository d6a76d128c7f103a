/* larson: a server whose threads come and go.
 *
 * After Larson and Krishnan, "Memory Allocation for Long-Running Server
 * Applications", ISMM 1998: each thread replaces random objects of an array;
 * then it hands the array to a thread that it starts, and ends. So most
 * objects are freed by another thread than the one that allocated them, and
 * memory bleeds from thread to thread.
 */
#include "life.h"

#include <pthread.h>
#include <semaphore.h>

enum { LINES = 4, OBJECTS = 6000, GENERATIONS = 24, REPLACED = 40000 };
enum { LEAST = 10, MOST = 1000 };

/* A line of threads; one at a time has it. */
struct line {
    struct slot *slots;
    struct owner owner;
    unsigned generation;
    uint64_t replaced; /* in each generation */
    pthread_t parent;  /* the thread before, from generation 1 on */
    sem_t *ended;
};

static void *live(void *context)
{
    struct line *line = context;
    pthread_t parent = line->parent;

    for (uint64_t i = 0; i < line->replaced; i++) {
        struct slot *slot = &line->slots[below(&line->owner, OBJECTS)];
        empty(slot);
        fill(slot, &line->owner, between(&line->owner, LEAST, MOST));
    }

    if (line->generation > 0)
        pthread_join(parent, NULL);
    line->parent = pthread_self();
    if (++line->generation < GENERATIONS) {
        pthread_t child;
        if (pthread_create(&child, NULL, live, line))
            fail("a successor does not start");
    } else {
        sem_post(line->ended);
    }
    return NULL;
}

static uint64_t run(const struct job *job)
{
    struct line lines[LINES];
    sem_t ended;
    sem_init(&ended, 0, 0);

    for (unsigned i = 0; i < LINES; i++) {
        lines[i] = (struct line){
            .slots = map_table(OBJECTS, sizeof(struct slot)),
            .owner = new_owner(job, i),
            .replaced = scaled(job, REPLACED),
            .ended = &ended,
        };
        for (unsigned k = 0; k < OBJECTS; k++)
            fill(&lines[i].slots[k], &lines[i].owner, between(&lines[i].owner, LEAST, MOST));
    }
    for (unsigned i = 0; i < LINES; i++) {
        pthread_t first;
        if (pthread_create(&first, NULL, live, &lines[i]))
            fail("thread %u does not start", i);
    }
    for (unsigned i = 0; i < LINES; i++)
        while (sem_wait(&ended))
            continue;
    for (unsigned i = 0; i < LINES; i++) {
        pthread_join(lines[i].parent, NULL);
        empty_all(lines[i].slots, OBJECTS);
        unmap_table(lines[i].slots, OBJECTS, sizeof(struct slot));
    }
    sem_destroy(&ended);
    return LINES * (OBJECTS + GENERATIONS * scaled(job, REPLACED));
}

const struct load load_larson = {
    .name = "larson",
    .threads = LINES,
    .words = "a server bleeding: threads replace 10 to 1000 bytes at random and hand their "
             "arrays to successors (12 MB live)",
    .run = run,
};
