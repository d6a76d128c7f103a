/* churn: threads that begin and end all the time.
 *
 * As in mleak of mimalloc-bench, what allocators keep for a thread must go or
 * be passed on when the thread goes; as in servers with a thread a connection,
 * a part of what it allocated lives on, and a later thread frees it. A thread
 * also leaves an object to a destructor of thread-specific data, which
 * allocates and frees after the thread's own code.
 */
#include "life.h"

#include <pthread.h>

enum { AT_ONCE = 4, WAVES = 1000, OBJECTS = 240, LEFT = OBJECTS / 2, ESTATES = 128 };
enum { LEAST = 16, MOST = 1024, LATE = 700 };

struct estate {
    struct slot left[LEFT];
};

struct visitor {
    struct estate *estate; /* of an earlier thread, then this one's */
    struct owner owner;
};

static pthread_key_t late;

static void at_exit(void *at)
{
    struct slot slot = {.at = at, .size = LATE, .mark = LATE};
    struct slot another;
    hold(&another, got(malloc(LATE), LATE), LATE, LATE + 1);
    empty(&slot);
    empty(&another);
}

static void *visit(void *context)
{
    struct visitor *me = context;
    struct slot own[OBJECTS];
    struct slot for_late;

    hold(&for_late, got(malloc(LATE), LATE), LATE, LATE);
    if (pthread_setspecific(late, for_late.at))
        fail("no place for thread-specific data");
    for (unsigned i = 0; i < OBJECTS; i++) {
        fill(&own[i], &me->owner, between(&me->owner, LEAST, MOST));
        if (i % 2)
            empty(&me->estate->left[i / 2]);
    }
    for (unsigned i = 0; i < OBJECTS; i += 2)
        empty(&own[i]);
    for (unsigned i = 0; i < LEFT; i++)
        me->estate->left[i] = own[2 * i + 1];
    return NULL;
}

static uint64_t run(const struct job *job)
{
    struct estate *estates = map_table(ESTATES, sizeof *estates);
    uint64_t waves = scaled(job, WAVES), guest = 0;
    if (pthread_key_create(&late, at_exit))
        fail("no key for thread-specific data");
    for (uint64_t wave = 0; wave < waves; wave++) {
        struct visitor visitors[AT_ONCE];
        for (unsigned i = 0; i < AT_ONCE; i++, guest++)
            visitors[i] = (struct visitor){
                .estate = &estates[guest % ESTATES],
                .owner = new_owner(job, guest),
            };
        run_threads(AT_ONCE, visit, visitors, sizeof *visitors);
    }
    pthread_key_delete(late);
    for (unsigned i = 0; i < ESTATES; i++)
        empty_all(estates[i].left, LEFT);
    unmap_table(estates, ESTATES, sizeof *estates);
    return guest * (OBJECTS + 2);
}

const struct load load_churn = {
    .name = "churn",
    .threads = AT_ONCE,
    .words = "4000 threads, four at a time, allocate 240 objects of up to 1 KiB and leave "
             "half to later ones (8 MB live)",
    .run = run,
};
