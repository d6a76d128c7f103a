/* expect: at-once double-free */
/* A signal handler frees what the program has freed already. */
#include "misuse.h"
#include <signal.h>

static void *freed;

static void handler(int number)
{
    (void)number;
    free(freed);
}

int main(void)
{
    begin();
    freed = get(SMALL);
    signal(SIGUSR1, handler);
    free(freed);
    raise(SIGUSR1);
    return flush();
}
