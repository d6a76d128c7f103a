/* brief: threads that start and end by the thousand, with few objects each.
 *
 * As servers do that have a thread for each connection. A thread leaves half of its
 * objects to the one that begins after it, so that what a thread's cache held is
 * freed by another, after its owner has ended.
 */
#include "life.h"

enum { THREADS = 8, STARTS = 1200, OBJECTS = 60, LEAST = 16, MOST = 1024 };

struct life {
    struct slot *table; /* of the place where it lives */
    struct owner owner;
};

static void *live(void *context)
{
    struct life *life = context;
    struct slot own[OBJECTS];
    for (unsigned i = 0; i < OBJECTS; i++)
        fill(&own[i], &life->owner, between(&life->owner, LEAST, MOST));
    /* What the one before left, and half of what is our own. */
    empty_all(life->table, OBJECTS / 2);
    memcpy(life->table, own, OBJECTS / 2 * sizeof *own);
    empty_all(own + OBJECTS / 2, OBJECTS / 2);
    return NULL;
}

static uint64_t run(const struct job *job)
{
    struct slot *tables = map_table(THREADS * OBJECTS, sizeof *tables);
    struct life lives[THREADS];
    uint64_t starts = scaled(job, STARTS);
    for (unsigned i = 0; i < THREADS; i++)
        lives[i] = (struct life){.table = tables + i * OBJECTS, .owner = new_owner(job, i)};
    for (uint64_t n = 0; n < starts; n++)
        run_threads(THREADS, live, lives, sizeof *lives);
    empty_all(tables, THREADS * OBJECTS);
    unmap_table(tables, THREADS * OBJECTS, sizeof *tables);
    return starts * THREADS * OBJECTS;
}

const struct load load_brief_threads = {
    .name = "brief_threads",
    .threads = THREADS,
    .words = "9600 threads, 8 at a time, allocate 60 objects of 16 to 1024 bytes each and free "
             "half of them and what their forerunner left (less than 1 MB live)",
    .run = run,
};
