/* fragment and burst_idle: holes, and memory that is needed no more.
 *
 * fragment: grow, free at random, grow with other sizes; Johnstone and Wilson,
 * "The Memory Fragmentation Problem: Solved?", ISMM 1998, say why the second
 * growth is the test. Each round frees another part, from 50 to 95 %, and asks
 * for as many bytes as it freed, in other sizes.
 *
 * burst_idle: after a burst a service rests, and what it keeps is what it
 * costs all day.
 */
#include "life.h"

#include <time.h>

enum { PLACES = 400000, LIVE_BYTES = 64 << 20, ROUNDS = 9 };

/* Each round has its own sizes, which no other round near it has. */
static uint32_t round_size(struct owner *owner, uint64_t round)
{
    static const uint16_t least[] = {48, 300, 100, 1100, 80, 600};
    uint32_t base = least[round % (sizeof least / sizeof *least)];
    return between(owner, base, 3 * base);
}

static uint64_t run_fragment(const struct job *job)
{
    struct slot *table = map_table(PLACES, sizeof *table);
    struct owner owner = new_owner(job, 0);
    uint64_t ops = 0, live = 0, rounds = scaled(job, ROUNDS);
    for (uint64_t round = 0; round < rounds; round++) {
        /* Places may run out before bytes do while sizes are small. */
        for (size_t i = 0; i < PLACES && live < LIVE_BYTES; i++) {
            if (table[i].at)
                continue;
            fill(&table[i], &owner, round_size(&owner, round));
            live += table[i].size;
            ops++;
        }
        uint32_t part = between(&owner, 50, 95);
        for (size_t i = 0; i < PLACES; i++) {
            if (!table[i].at || below(&owner, 100) >= part)
                continue;
            live -= table[i].size;
            empty(&table[i]);
        }
    }
    empty_all(table, PLACES);
    unmap_table(table, PLACES, sizeof *table);
    return ops;
}

const struct load load_fragment = {
    .name = "fragment",
    .threads = 1,
    .words = "grows to 64 MiB, frees 50 to 95 % at random, and grows again with other sizes, "
             "of 48 to 3300 bytes (69 MB live)",
    .run = run_fragment,
};

enum { BURST = 300000, BURSTS = 4, KEPT_ONE_IN = 100, RESTS = 60, PAIRS = 20 };

/* A thousand small pairs a second or so. */
static uint64_t rest(struct owner *owner)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (unsigned i = 0; i < RESTS; i++) {
        nanosleep(&pause, NULL);
        for (unsigned k = 0; k < PAIRS; k++) {
            struct slot slot;
            fill(&slot, owner, between(owner, 16, 256));
            empty(&slot);
        }
    }
    return RESTS * PAIRS;
}

static uint64_t run_burst_idle(const struct job *job)
{
    struct slot *table = map_table(BURST, sizeof *table);
    struct owner owner = new_owner(job, 0);
    uint64_t ops = 0, bursts = scaled(job, BURSTS);
    for (uint64_t burst = 0; burst < bursts; burst++) {
        for (size_t i = 0; i < BURST; i++) {
            if (table[i].at) /* kept from the burst before */
                empty(&table[i]);
            fill(&table[i], &owner, between(&owner, 16, 400));
            ops++;
        }
        for (size_t i = 0; i < BURST; i++)
            if (below(&owner, KEPT_ONE_IN))
                empty(&table[i]);
        ops += rest(&owner);
    }
    empty_all(table, BURST);
    unmap_table(table, BURST, sizeof *table);
    return ops;
}

const struct load load_burst_idle = {
    .name = "burst_idle",
    .threads = 1,
    .words = "bursts of 300,000 objects of 16 to 400 bytes, 99 % freed, each followed by "
             "little traffic for 60 ms (64 MB live)",
    .run = run_burst_idle,
};
