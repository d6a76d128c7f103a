/* What a load is, and what load.c lends it.
 *
 * A load runs operations until its goal is reached: a number of operations,
 * or a moment.
 * One operation is one malloc and one free; every object's first word is
 * written, as a program would.
 */
#ifndef LOAD_H
#define LOAD_H

#include <stdbool.h>
#include <stdint.h>

struct goal {
    uint64_t ops;      /* 0: run to the deadline */
    uint64_t deadline; /* CLOCK_MONOTONIC, nanoseconds */
};

/* Runs to the goal, and returns the number of operations done. */
typedef uint64_t run_fn(const struct goal *goal);

struct load {
    const char *name;
    int threads;
    void (*start)(const int *cpus, int nr_cpus); /* once; may be NULL */
    run_fn *run;
};

extern const struct load single_loads[], thread_loads[]; /* end: name NULL */

uint64_t now_ns(void);
void pin(int cpu);

static inline bool reached(const struct goal *goal, uint64_t done)
{
    return goal->ops ? done >= goal->ops : now_ns() >= goal->deadline;
}

static inline void touch(void *object)
{
    *(volatile uint64_t *)object = 1;
}

/* xorshift64*, after Vigna, "An experimental exploration of Marsaglia's
 * xorshift generators, scrambled" (2016). */
static inline uint32_t next_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return (uint32_t)((x * 0x2545f4914f6cdd1dull) >> 32);
}

/* 16 to 1024 in steps of 16; the k-th step is chosen with weight 1/k (Zipf):
 * most requests of a program are small. */
uint16_t zipf_size(uint64_t *state);

#endif
