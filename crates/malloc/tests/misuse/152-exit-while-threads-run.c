/* expect: fine none */
/* Nothing wrong: the program ends while threads allocate and free. */
#include "misuse.h"
#include <pthread.h>

static volatile int running;

static void *turns(void *arg)
{
    void *kept[50] = { NULL };

    for (unsigned i = 0;; i++) {
        free(kept[i * 7 % 50]);
        kept[i * 7 % 50] = get(1 + i * 13 % 600);
        if (i == 1000)
            __sync_fetch_and_add(&running, 1);
    }
    return arg;
}

int main(void)
{
    begin();

    pthread_t thread;

    for (int i = 0; i < 4; i++) {
        if (pthread_create(&thread, NULL, turns, NULL))
            return 93;
    }
    while (running < 4)
        sched_yield();
    after_bad_use();
    return 0;
}
