/* A library that damages memory seldom and silently, to see that checks tell:
   one calloc in 500 is not clear, one realloc in 500 loses its last bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_calloc(size_t number, size_t size);
extern void *__libc_realloc(void *p, size_t size);

static unsigned now;

void *calloc(size_t number, size_t size) {
    char *p = __libc_calloc(number, size);
    if (p && number * size >= 64 && __atomic_add_fetch(&now, 1, __ATOMIC_RELAXED) % 500 == 0)
        memset(p + number * size / 2, 0xd5, 16);
    return p;
}

void *realloc(void *old, size_t size) {
    char *p = __libc_realloc(old, size);
    if (p && old && size >= 64 && __atomic_add_fetch(&now, 1, __ATOMIC_RELAXED) % 500 == 0)
        memset(p + size / 2 - 16, 0xd5, 16);
    return p;
}
