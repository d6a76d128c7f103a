/* Breaks nothing: with all signals blocked, handlers may allocate. */
#include "shim.h"
#include <signal.h>

static sigset_t block(void)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    return before;
}

static void restore(sigset_t before)
{
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void *malloc(size_t size)
{
    sigset_t before = block();
    void *p = __libc_malloc(size);

    restore(before);
    return p;
}

void *calloc(size_t nr, size_t size)
{
    sigset_t before = block();
    void *p = __libc_calloc(nr, size);

    restore(before);
    return p;
}

void free(void *p)
{
    sigset_t before = block();

    __libc_free(p);
    restore(before);
}
