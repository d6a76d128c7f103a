/*
 * A library that the program is linked with: its constructor runs before those of
 * what is preloaded, so its handlers of a fork were registered before theirs. They
 * call what the program put here: before a fork, after it in the parent, in the child.
 */
#include <pthread.h>

void (*earlier_at_fork[3])(void);

static void prepare(void)
{
    if (earlier_at_fork[0])
        earlier_at_fork[0]();
}

static void parent(void)
{
    if (earlier_at_fork[1])
        earlier_at_fork[1]();
}

static void child(void)
{
    if (earlier_at_fork[2])
        earlier_at_fork[2]();
}

__attribute__((constructor)) static void begin(void)
{
    pthread_atfork(prepare, parent, child);
}
