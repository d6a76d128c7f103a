/* expect: at-once double-free */
/* Two threads that live on free the same object, one after the other. */
#include "misuse.h"
#include <pthread.h>

static void *p;
static volatile int done;

static void *first(void *arg)
{
    free(p);
    done = 1;
    for (;;)
        pause();
    return arg;
}

int main(void)
{
    begin();

    pthread_t thread;
    void *q = get(SMALL);

    p = get(SMALL);
    if (pthread_create(&thread, NULL, first, NULL))
        return 93;
    while (!done)
        sched_yield();
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
