/*
 * What the programs of bad use share.
 *
 * A program's first line tells what must happen:
 *     expect: WHEN CAUSE
 * WHEN is `at-once` (aborted within the bad call), `at-flush` (aborted later,
 * when objects go back to their slabs), `at-exit` (aborted when the process ends),
 * `faults` (stopped by the kernel within the bad use), `not-caught`, `warned` (a line
 * on stderr, then on as if nothing was), or `fine`. On the engine `tiny`, which parks
 * nothing, `at-flush` and `at-exit` are `at-once`.
 * Its second line says in words what it does. A line `env: NAME=VALUE` sets a
 * variable for it.
 *
 * `after_bad_use` writes a mark to stdout: by it the runner tells `at-once`
 * from what is noticed later.
 */
#ifndef MISUSE_H
#define MISUSE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <malloc.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SMALL = 64, RUN = 100000, MAPPING = 4 << 20 };

/* An object that stays live: the engine `tiny` ends a slab with its last one. */
static void *kept;

/* One CPU: what is on top of its stack does not depend on the scheduler. */
static inline void begin(void)
{
    struct rlimit none = { 0, 0 };
    cpu_set_t set;

    setrlimit(RLIMIT_CORE, &none);
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    if (sched_setaffinity(0, sizeof set, &set))
        _exit(90);
    /* So that the first object of a class is not the only one of its slab. */
    free(malloc(SMALL));
    kept = malloc(SMALL);
}

/* The compiler must not know where a pointer comes from. */
static inline void *opaque(void *p)
{
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

static inline void *get(size_t size)
{
    void *p = opaque(malloc(size));

    if (!p)
        _exit(91);
    memset(p, 1, size);
    return p;
}

/* Behind a pointer, by so many bytes. */
static inline void *behind(void *p, ptrdiff_t bytes)
{
    return opaque((void *)((uintptr_t)p + (uintptr_t)bytes));
}

/* What a program has done before: more frees than are looked at one by one. */
static inline void work(void)
{
    for (int i = 0; i < 10000; i++)
        free(get(1 + i * 37 % 6000));
}

static inline void after_bad_use(void)
{
    if (write(1, "after\n", 6) != 6)
        _exit(92);
}

/* The end of most programs: everything goes back to its slab. */
static inline int flush(void)
{
    after_bad_use();
    malloc_trim(0);
    return 0;
}

#endif
