/* expect: at-once invalid-pointer */
/* A thread frees an array on its stack. */
#include "misuse.h"
#include <pthread.h>

static void *frees(void *arg)
{
    char array[200];

    free(opaque(array + 8));
    after_bad_use();
    return arg;
}

int main(void)
{
    begin();

    pthread_t thread;

    if (pthread_create(&thread, NULL, frees, NULL))
        return 93;
    pthread_join(thread, NULL);
    return 0;
}
