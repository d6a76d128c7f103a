/*
 * What the allocators of this directory share: the C library's own
 * malloc below them. Each breaks one promise (`masked.c` none), and the programs
 * of `../c` must notice.
 */
#ifndef SHIM_H
#define SHIM_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

#endif
