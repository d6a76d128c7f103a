/*
 * What the programs of this directory share: a check that prints and counts,
 * contents that can be recognised, and the end of a program.
 *
 * Nothing here allocates, so that a check can stand in a signal handler, in a
 * constructor that runs before all others, and where memory has run out.
 */
#ifndef CHECK_H
#define CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>

static int nr_failed;

/* How many times slower than a machine of today this one is said to be (an emulated one is): what a
 * program waits for, and after which time it hangs, is so many times as long. */
static inline unsigned slower(void)
{
    const char *told = getenv("TESTS_SLOWER");

    return told ? (unsigned)strtoul(told, NULL, 10) : 1;
}

static inline void check_failed(const char *file, int line, const char *what,
                                const char *format, ...)
{
    char text[400];
    va_list args;
    int n, more;

    /* The first ones tell enough; a loop must not fill the disk. */
    if (__atomic_add_fetch(&nr_failed, 1, __ATOMIC_RELAXED) > 20)
        return;
    n = snprintf(text, sizeof text, "%s:%d: failed: %s: ", file, line, what);
    if (n < 0 || n > (int)sizeof text - 2)
        n = (int)sizeof text - 2;
    va_start(args, format);
    more = vsnprintf(text + n, sizeof text - 1 - (size_t)n, format, args);
    va_end(args);
    n += more < 0 ? 0 : more;
    if (n > (int)sizeof text - 2)
        n = (int)sizeof text - 2;
    text[n] = '\n';
    if (write(2, text, (size_t)n + 1) < 0)
        _exit(99);
}

/* The text behind the condition is a format and its values. */
#define CHECK(condition, ...)                                                  \
    ((condition) ? (void)0                                                     \
                 : check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__))

/* The compiler must take the memory as used, and the pointer as unknown. */
static inline void *opaque(void *p)
{
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

static inline uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* The word of a block at offset `at`: differs from block to block. */
static inline uint64_t word_at(uint64_t seed, size_t at)
{
    return (seed + at) * 0x9e3779b97f4a7c15u | 1;
}

static inline void fill(void *p, size_t size, uint64_t seed)
{
    unsigned char *to = (unsigned char *)p;
    uint64_t word;
    size_t at;

    for (at = 0; at + 8 <= size; at += 8) {
        word = word_at(seed, at);
        memcpy(to + at, &word, 8);
    }
    word = word_at(seed, at);
    memcpy(to + at, &word, size - at);
}

/* True if the first `size` bytes are what `fill` with this seed wrote. */
static inline int intact(const void *p, size_t size, uint64_t seed)
{
    const unsigned char *from = (const unsigned char *)p;
    uint64_t word, found;
    size_t at;

    for (at = 0; at + 8 <= size; at += 8) {
        memcpy(&found, from + at, 8);
        if (found != word_at(seed, at))
            return 0;
    }
    word = word_at(seed, at);
    return memcmp(from + at, &word, size - at) == 0;
}

static inline int all_zero(const void *p, size_t size)
{
    const unsigned char *from = (const unsigned char *)p;

    return size == 0 || (from[0] == 0 && memcmp(from, from + 1, size - 1) == 0);
}

static inline int aligned_to(const void *p, size_t alignment)
{
    return ((uintptr_t)p & (alignment - 1)) == 0;
}

/* Resident KiB, or -1. Read with bare calls: stdio would allocate. */
static inline long resident_kib(void)
{
    char text[2048];
    const char *line;
    long n;
    int fd = open("/proc/self/smaps_rollup", O_RDONLY);

    if (fd < 0)
        return -1;
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return -1;
    text[n] = 0;
    line = strstr(text, "\nRss:");
    return line ? strtol(line + 5, NULL, 10) : -1;
}

/* Does the kernel make huge pages where nobody asked? A byte that is written makes 2 MiB resident then. */
static inline int makes_huge_pages(void)
{
    char text[64] = "";
    int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY);

    if (fd < 0)
        return 0;
    if (read(fd, text, sizeof text - 1) < 0)
        text[0] = 0;
    close(fd);
    return strstr(text, "[always]") != NULL;
}

/* The allocator's own check of itself, where it has one. */
static inline void verify_yard(const char *when)
{
    int (*verify)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "slabyard_verify");
    int found;

    if (!verify)
        return;
    found = verify();
    CHECK(found == 0, "%s: the yard is not sound (%d)", when, found);
}

/* The end of every program: its exit code. */
static inline int finish(const char *name)
{
    int failed;

    verify_yard("at the end");
    failed = __atomic_load_n(&nr_failed, __ATOMIC_RELAXED);
    if (failed)
        fprintf(stderr, "%s: %d checks failed\n", name, failed);
    return failed != 0;
}

#endif
