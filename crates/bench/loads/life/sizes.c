/* sizes_pareto, sizes_linear, sizes_powerlaw, sizes_every: what sizes do.
 *
 * Objects come and go at random places of a table, as described for alloc-test
 * (node-dev/OLogN), whose sizes are Pareto's; linear fall-off is that of
 * rptest (Rampant Pixels); the steps between them and the last load, which has
 * every size, find classes that fit badly.
 *
 * Sizes are drawn from a table of quantiles: no arithmetic of floating point
 * between two allocations.
 */
#include "life.h"

#include <math.h>

enum { QUANTILES = 8192 };

/* `size` is the inverse of the distribution, from 0 to below 1. */
static uint32_t *quantiles(double (*size)(double part))
{
    uint32_t *table = map_table(QUANTILES, sizeof *table);
    for (unsigned i = 0; i < QUANTILES; i++)
        table[i] = (uint32_t)size((i + 0.5) / QUANTILES);
    return table;
}

struct mix {
    struct owner owner;
    const uint32_t *sizes;
    unsigned places; /* half of them are filled, in the end */
    uint64_t steps;
    uint64_t ops;
};

/* At a random place: frees what is there, or allocates where nothing is. */
static void *run_mix(void *context)
{
    struct mix *mix = context;
    struct slot *table = map_table(mix->places, sizeof *table);
    for (uint64_t i = 0; i < mix->steps; i++) {
        struct slot *slot = &table[below(&mix->owner, mix->places)];
        if (slot->at) {
            empty(slot);
        } else {
            fill(slot, &mix->owner, mix->sizes[below(&mix->owner, QUANTILES)]);
            mix->ops++;
        }
    }
    empty_all(table, mix->places);
    unmap_table(table, mix->places, sizeof *table);
    return NULL;
}

static uint64_t run_mixes(const struct job *job, unsigned threads, double (*size)(double part),
                          unsigned places, uint64_t steps)
{
    enum { MOST = 4 };
    struct mix mixes[MOST];
    uint32_t *sizes = quantiles(size);
    uint64_t ops = 0;
    for (unsigned i = 0; i < threads; i++)
        mixes[i] = (struct mix){
            .owner = new_owner(job, i),
            .sizes = sizes,
            .places = places,
            .steps = places + scaled(job, steps),
        };
    run_threads(threads, run_mix, mixes, sizeof *mixes);
    for (unsigned i = 0; i < threads; i++)
        ops += mixes[i].ops;
    unmap_table(sizes, QUANTILES, sizeof *sizes);
    return ops;
}

/* Of 16 bytes at least, with index 1.1: half have less than 31, some 64 KiB. */
static double pareto(double part)
{
    double size = 16 / pow(1 - part, 1 / 1.1);
    return size < 65536 ? size : 65536;
}

static uint64_t run_pareto(const struct job *job)
{
    return run_mixes(job, 1, pareto, 200000, 6000000);
}

const struct load load_sizes_pareto = {
    .name = "sizes_pareto",
    .threads = 1,
    .words = "sizes as in Pareto's law, 16 bytes to 64 KiB, most of them tiny, at random (12 "
             "MB live)",
    .run = run_pareto,
};

/* The density falls on a line from 16 bytes to nothing at 8 KiB. */
static double linear(double part)
{
    return 16 + (8192 - 16) * (1 - sqrt(1 - part));
}

static uint64_t run_linear(const struct job *job)
{
    return run_mixes(job, 2, linear, 8000, 3000000);
}

const struct load load_sizes_linear = {
    .name = "sizes_linear",
    .threads = 2,
    .words = "sizes that grow rarer on a line, from 16 bytes to 8 KiB, at random (22 MB "
             "live)",
    .run = run_linear,
};

/* The density is size to the power of -1.5, between 16 bytes and 64 KiB. */
static double powerlaw(double part)
{
    double least = 1 / sqrt(16), most = 1 / sqrt(65536);
    double root = least - part * (least - most);
    return 1 / (root * root);
}

static uint64_t run_powerlaw(const struct job *job)
{
    return run_mixes(job, 1, powerlaw, 50000, 5000000);
}

const struct load load_sizes_powerlaw = {
    .name = "sizes_powerlaw",
    .threads = 1,
    .words = "sizes by a power law of -1.5, 16 bytes to 64 KiB, at random (28 MB live)",
    .run = run_powerlaw,
};

enum { EVERY = 32768, EVERY_LIVE = 3000, EVERY_PASSES = 40 };

/* Each pass has every size once, in an order that an odd factor gives. */
static uint64_t run_every(const struct job *job)
{
    struct slot *table = map_table(EVERY_LIVE, sizeof *table);
    struct owner owner = new_owner(job, 0);
    uint64_t passes = scaled(job, EVERY_PASSES);
    for (uint64_t pass = 0; pass < passes; pass++) {
        uint32_t factor = below(&owner, EVERY) | 1, shift = below(&owner, EVERY);
        for (uint32_t i = 0; i < EVERY; i++) {
            struct slot *slot = &table[below(&owner, EVERY_LIVE)];
            empty(slot);
            fill(slot, &owner, (i * factor + shift) % EVERY + 1);
        }
    }
    empty_all(table, EVERY_LIVE);
    unmap_table(table, EVERY_LIVE, sizeof *table);
    return passes * EVERY;
}

const struct load load_sizes_every = {
    .name = "sizes_every",
    .threads = 1,
    .words = "every size from 1 byte to 32 KiB once a pass, 3000 of them at random (50 MB "
             "live)",
    .run = run_every,
};
