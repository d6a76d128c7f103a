/* Histograms of times, and the clock that costs least to read: what the loads
 * share that time single calls.
 *
 * Steps are logarithmic and below 0.8 %, after Tene's HdrHistogram: the
 * exponent and the 7 bits below the highest.
 */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

enum { STEP_BITS = 7, STEPS = 1 << STEP_BITS, BUCKETS = (64 - STEP_BITS + 1) * STEPS };

struct histogram {
    uint64_t count, max;
    uint32_t buckets[BUCKETS];
};

static inline unsigned bucket_of(uint64_t value)
{
    if (value < STEPS)
        return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - STEP_BITS;
    return (shift + 1) * STEPS + (unsigned)(value >> shift & (STEPS - 1));
}

/* The middle of a bucket. */
static inline double value_of(unsigned bucket)
{
    if (bucket < STEPS)
        return bucket;
    unsigned shift = bucket / STEPS - 1;
    uint64_t least = ((uint64_t)STEPS | bucket % STEPS) << shift;
    return (double)least + (double)((1ull << shift) - 1) / 2;
}

static inline void count(struct histogram *h, uint64_t value)
{
    h->count++;
    h->buckets[bucket_of(value)]++;
    if (value > h->max)
        h->max = value;
}

static inline void add(struct histogram *to, const struct histogram *from)
{
    to->count += from->count;
    to->max = from->max > to->max ? from->max : to->max;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++)
        to->buckets[bucket] += from->buckets[bucket];
}

static inline double percentile(const struct histogram *h, double share)
{
    uint64_t rank = (uint64_t)(share * (double)h->count), below = 0;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        below += h->buckets[bucket];
        if (below > rank)
            return value_of(bucket);
    }
    return (double)h->max;
}

/* The processor's time stamp counter; 0 where there is none. */
static inline uint64_t tsc(void)
{
#ifdef __x86_64__
    uint32_t low, high;
    /* Fenced on both sides: nothing of the call is done before or after. */
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
#else
    return 0;
#endif
}

#endif
