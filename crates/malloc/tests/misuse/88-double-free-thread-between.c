/* expect: at-once double-free */
/* A thread frees two objects, then the main thread frees the first again. */
#include "misuse.h"
#include <pthread.h>

static void *p, *q;

static void *first(void *arg)
{
    free(p);
    free(q);
    return arg;
}

int main(void)
{
    begin();

    pthread_t thread;

    p = get(SMALL);
    q = get(SMALL);
    if (pthread_create(&thread, NULL, first, NULL))
        return 93;
    pthread_join(thread, NULL);
    free(p);
    after_bad_use();
    return 0;
}
