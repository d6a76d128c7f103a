/* One lock that fork does not know of: a child may find it held for ever. */
#include "shim.h"

static char held;

static void lock(void)
{
    while (__atomic_test_and_set(&held, __ATOMIC_ACQUIRE))
        ;
}

static void unlock(void)
{
    __atomic_clear(&held, __ATOMIC_RELEASE);
}

void *malloc(size_t size)
{
    void *p;

    lock();
    p = __libc_malloc(size);
    unlock();
    return p;
}

void free(void *p)
{
    lock();
    __libc_free(p);
    unlock();
}
