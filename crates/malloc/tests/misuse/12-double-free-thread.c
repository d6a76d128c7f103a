/* expect: at-flush double-free */
/* A small object is freed in one thread, then in another. */
/* env: SLABYARD_CHECK_FREES=0 */
#include "misuse.h"
#include <pthread.h>

static void *shared;

static void *second(void *arg)
{
    void *other = get(SMALL);

    /* `other` may be the object itself: then its second life ends first. */
    if (other == shared) {
        other = get(SMALL);
        free(shared);
    }
    free(other);
    free(shared);
    return arg;
}

int main(void)
{
    begin();

    pthread_t thread;

    shared = get(SMALL);
    free(shared);
    if (pthread_create(&thread, NULL, second, NULL))
        return 93;
    pthread_join(thread, NULL);
    return flush();
}
