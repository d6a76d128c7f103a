/* expect: fine none */
/* Nothing wrong: objects are freed and handed out again in turns, by two threads too. */
#include "misuse.h"
#include <pthread.h>

static void *turns(void *arg)
{
    void *kept[50] = { NULL };

    for (int i = 0; i < 20000; i++) {
        free(kept[i * 7 % 50]);
        kept[i * 7 % 50] = get(1 + i * 13 % 600);
    }
    for (int i = 0; i < 50; i++)
        free(kept[i]);
    return arg;
}

int main(void)
{
    begin();

    pthread_t thread;
    void *p = get(SMALL);

    for (int i = 0; i < 20000; i++) {
        void *q = get(SMALL);

        free(p);
        p = get(SMALL);
        free(q);
    }
    free(p);
    if (pthread_create(&thread, NULL, turns, NULL))
        return 93;
    turns(NULL);
    pthread_join(thread, NULL);
    turns(NULL);
    after_bad_use();
    return 0;
}
