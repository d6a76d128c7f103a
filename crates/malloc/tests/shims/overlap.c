/* Blocks of middle size come from a ring: live ones are handed out again. */
#include "shim.h"

enum { BLOCKS = 48, BLOCK = 1024 };

static _Alignas(16) char ring[BLOCKS][BLOCK];
static unsigned next;

static int in_ring(const void *p)
{
    return (uintptr_t)p - (uintptr_t)ring < sizeof ring;
}

void *malloc(size_t size)
{
    if (size < 100 || size > 800)
        return __libc_malloc(size);
    return ring[__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % BLOCKS];
}

void free(void *p)
{
    if (!in_ring(p))
        __libc_free(p);
}

void *realloc(void *p, size_t size)
{
    void *to;

    if (!p)
        return malloc(size);
    if (!in_ring(p))
        return __libc_realloc(p, size);
    to = __libc_malloc(size);
    if (to)
        memcpy(to, p, size < BLOCK ? size : BLOCK);
    return to;
}

/* The C library's own reads the word before the block. */
size_t malloc_usable_size(void *p)
{
    if (in_ring(p))
        return 800;
    return p ? (((size_t *)p)[-1] & ~(size_t)7) - (((size_t *)p)[-1] & 2 ? 16 : 8) : 0;
}
