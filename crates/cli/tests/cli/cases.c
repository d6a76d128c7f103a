/* Planted cases for `slabyard doctor`: cases CASE MIB SIZE [N] fills so much memory by objects of
 * a size, leaves it as the case says, prints "ready" and waits. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t seed = 88172645463325252;
static size_t mib, size, number;
static atomic_size_t at_rest;
static char room[256 << 20];

/* xorshift64 (Marsaglia 2003). */
static uint64_t any(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static char *fill(size_t bytes)
{
    return memset(malloc(bytes), 1, bytes);
}

static void ready(void)
{
    puts("ready");
    fflush(stdout);
}

static __attribute__((noinline)) char *pin(size_t bytes)
{
    return fill(bytes);
}

/* Allocates objects and frees all for which `kept` says no; `pin` allocates those that stay. */
static void burst(size_t bytes, size_t of, int (*kept)(size_t))
{
    size_t n = bytes / of, i;
    char **objects = malloc(n * sizeof *objects), *stays = malloc(n);

    for (i = 0; i < n; i++) {
        stays[i] = kept(i);
        objects[i] = stays[i] ? pin(of) : fill(of);
    }
    for (i = 0; i < n; i++)
        if (!stays[i])
            free(objects[i]);
    free(objects);
    free(stays);
}

static int some(size_t i)
{
    (void)i;
    return any() % number == 0;
}

static int each(size_t i)
{
    return i % number == 0;
}

static int none(size_t i)
{
    (void)i;
    return 0;
}

static int all(size_t i)
{
    (void)i;
    return 1;
}

static __attribute__((noinline)) void leak(void)
{
    fill(size);
}

/* Objects that live briefly, and one of `number` that is forgotten. */
static void leaks(uint64_t rounds)
{
    for (uint64_t i = 0; i < rounds; i++) {
        char *brief[8];
        for (int k = 0; k < 8; k++)
            brief[k] = fill(16 + any() % 1000);
        for (int k = 0; k < 8; k++)
            free(brief[k]);
        if (i % number == 0)
            leak();
        if (i % 1000 == 0)
            usleep(1000);
    }
}

static void *deep(void *unused)
{
    char buffer[3 << 20];

    memset(buffer, 1, sizeof buffer);
    __asm__ volatile("" : : "r"(buffer) : "memory");
    at_rest++;
    pause();
    return unused;
}

static void *hoards(void *unused)
{
    for (int round = 0; round < 2; round++)
        for (size_t of = 16; of < 8192; of += of / 4)
            burst(size, of, none);
    at_rest++;
    pause();
    return unused;
}

static void threads(void *(*does)(void *))
{
    for (size_t i = 0; i < number; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, does, NULL))
            abort();
    }
    while (at_rest < number)
        usleep(10000);
    usleep(100000);
}

static char *map(int flags, int file)
{
    return memset(mmap(NULL, mib << 20, PROT_READ | PROT_WRITE, flags, file, 0), 1, mib << 20);
}

int main(int argc, char **argv)
{
    const char *is = argv[1];

    mib = atol(argv[2]);
    size = atol(argv[3]);
    number = argc > 4 ? atol(argv[4]) : 20;
    if (!strcmp(is, "fragmented"))
        burst(mib << 20, size, some);
    else if (!strcmp(is, "one-object"))
        burst(mib << 20, size, each);
    else if (!strcmp(is, "calcified")) {
        for (size_t of = size; of < 8 * size; of *= 2)
            burst((mib << 20) / 3, of, some);
        burst(mib << 20, 16 * size, all);
    } else if (!strcmp(is, "burst"))
        burst(mib << 20, size, none);
    else if (!strcmp(is, "live"))
        burst(mib << 20, size, all);
    else if (!strcmp(is, "hoard"))
        threads(hoards);
    else if (!strcmp(is, "stacks"))
        threads(deep);
    else if (!strcmp(is, "mapped"))
        map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    else if (!strcmp(is, "shared"))
        map(MAP_SHARED | MAP_ANONYMOUS, -1);
    else if (!strcmp(is, "static"))
        memset(room, 1, mib << 20);
    else if (!strcmp(is, "untouched"))
        for (size_t i = 0; i < mib; i += 8)
            if (!malloc(8 << 20))
                abort();
    if (!strcmp(is, "leaked")) {
        leaks((mib << 20) / size * number);
        is = "rest";
    }
    ready();
    if (!strcmp(is, "leak"))
        leaks(UINT64_MAX);
    for (;;)
        pause();
}
