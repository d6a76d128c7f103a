/*
 * A planted fault: the C library's malloc behind one lock, which fork takes first,
 * as its handlers are registered late: who allocates with a lock that fork wants
 * next waits for ever.
 */
#define _GNU_SOURCE
#include "shim.h"
#include <pthread.h>

static pthread_mutex_t gate = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static void close_gate(void) { pthread_mutex_lock(&gate); }
static void open_gate(void) { pthread_mutex_unlock(&gate); }

__attribute__((constructor)) static void begin(void)
{
    pthread_atfork(close_gate, open_gate, open_gate);
}

void *malloc(size_t size)
{
    void *p;

    close_gate();
    p = __libc_malloc(size);
    open_gate();
    return p;
}

void free(void *p)
{
    close_gate();
    __libc_free(p);
    open_gate();
}
