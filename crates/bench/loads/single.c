/* The five loads of one thread: pair, lifo100, random100, lifo1000, mixed.
 *
 * Each has a step of at least 1000 operations or so, between two looks at the
 * clock.
 */
#include "load.h"

#include <stddef.h>
#include <stdlib.h>

enum { SIZE = 64, MANY = 1000, HUNDRED = 100, PAIRS = 2000 };

static uint64_t pairs(uint64_t nr)
{
    for (uint64_t i = 0; i < nr; i++) {
        void *object = malloc(SIZE);
        touch(object);
        free(object);
    }
    return nr;
}

/* In exact steps: the difference of two runs of it counts instructions. */
static uint64_t run_pair(const struct goal *goal)
{
    uint64_t done = 0;
    do {
        uint64_t left = goal->ops - done;
        done += pairs(goal->ops && left < PAIRS ? left : PAIRS);
    } while (!reached(goal, done));
    return done;
}

static void *live[MANY];

static uint64_t lifo(int nr)
{
    for (int i = 0; i < nr; i++)
        touch(live[i] = malloc(SIZE));
    for (int i = nr; i-- > 0;)
        free(live[i]);
    return (uint64_t)nr;
}

static uint64_t run_lifo100(const struct goal *goal)
{
    uint64_t done = 0;
    do {
        for (int i = 0; i < 20; i++)
            done += lifo(HUNDRED);
    } while (!reached(goal, done));
    return done;
}

static uint64_t run_lifo1000(const struct goal *goal)
{
    uint64_t done = 0;
    do {
        done += lifo(MANY);
        done += lifo(MANY);
    } while (!reached(goal, done));
    return done;
}

static uint16_t order[HUNDRED];

static void start_random100(const int *cpus, int nr_cpus)
{
    (void)cpus, (void)nr_cpus;
    uint64_t state = 0x9e3779b97f4a7c15ull;
    for (int i = 0; i < HUNDRED; i++)
        order[i] = (uint16_t)i;
    for (int i = HUNDRED - 1; i > 0; i--) {
        int j = (int)(next_random(&state) % (uint32_t)(i + 1));
        uint16_t other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
}

static uint64_t run_random100(const struct goal *goal)
{
    uint64_t done = 0;
    do {
        for (int round = 0; round < 20; round++) {
            for (int i = 0; i < HUNDRED; i++)
                touch(live[i] = malloc(SIZE));
            for (int i = 0; i < HUNDRED; i++)
                free(live[order[i]]);
        }
        done += 20 * HUNDRED;
    } while (!reached(goal, done));
    return done;
}

/* Slots and sizes are drawn beforehand: a window times the allocator, not the
 * generator.  8192 rows are too many for a branch predictor to learn, and
 * small enough to leave most of the cache to the objects. */
enum { ROWS = 8192 };
static struct row {
    uint16_t slot, size;
} rows[ROWS];

static void start_mixed(const int *cpus, int nr_cpus)
{
    (void)cpus, (void)nr_cpus;
    uint64_t state = 0xd1b54a32d192ed03ull;
    for (int i = 0; i < ROWS; i++) {
        rows[i].slot = (uint16_t)(next_random(&state) % MANY);
        rows[i].size = zipf_size(&state);
    }
    for (int i = 0; i < MANY; i++)
        touch(live[i] = malloc(zipf_size(&state)));
}

static uint64_t run_mixed(const struct goal *goal)
{
    static int at;
    uint64_t done = 0;
    do {
        for (int i = 0; i < ROWS / 8; i++) {
            struct row row = rows[at];
            at = (at + 1) % ROWS;
            free(live[row.slot]);
            touch(live[row.slot] = malloc(row.size));
        }
        done += ROWS / 8;
    } while (!reached(goal, done));
    return done;
}

const struct load single_loads[] = {
    {"pair", 1, NULL, run_pair},
    {"lifo100", 1, NULL, run_lifo100},
    {"random100", 1, start_random100, run_random100},
    {"lifo1000", 1, NULL, run_lifo1000},
    {"mixed", 1, start_mixed, run_mixed},
    {NULL, 0, NULL, NULL},
};
