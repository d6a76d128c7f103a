/* drain: how long single frees take, of which one in many is unlucky.
 *
 * A kernel's free that puts one slab too many on its CPU's partial list moves
 * the whole list to the node and pays for all (Horn, January 2021; SLUB up to
 * 6.19). Whatever an allocator keeps back for later calls, some call pays for
 * it; here each free is timed. In each cycle `objects` objects are allocated,
 * by this thread or by one on another CPU (`remote`), and freed in an order:
 *
 *   pages    one object of each page, then the second of each: frees go to
 *            full slabs first, and each slab gets empty late
 *   random
 *   made     as they were allocated
 *
 * The clock is the time stamp counter (`tsc`, fenced on both sides),
 * CLOCK_MONOTONIC, or CLOCK_THREAD_CPUTIME_ID (`thread`), which stops while
 * another thread has the CPU and costs most. Two readings of it with nothing
 * between are timed first; their median is taken off each free's time. Beside
 * `ops` and `ns` (of the whole) it says, times in nanoseconds:
 *
 *   clock tsc|monotonic|thread COST
 *   frees COUNT P50 P99 P99.9 MAX
 *   row FROM COUNT               frees of FROM to 2 FROM, from 1 on (0: below)
 *   switches N                   how often another thread took the CPU
 */
#include "../histogram.h"
#include "kernel.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifdef __x86_64__
#define FIRST_CLOCK TSC
#else
#define FIRST_CLOCK MONOTONIC /* no other architecture's counter is read here */
#endif

enum { OBJECTS, BYTES, CYCLES, ORDER, REMOTE, CLOCK };
enum { BY_PAGES, RANDOM, AS_MADE };
enum { TSC, MONOTONIC, THREAD };

static const char *const orders[] = {"pages", "random", "made"};
static const char *const clocks[] = {"tsc", "monotonic", "thread"};

/* On two CPUs, of which the second is the quieter one on a small machine. */
enum { MAKER, FREER };

static const struct setting settings[] = {
    [OBJECTS] = {.name = "objects", .usual = 20000, .least = 1, .most = 10000000},
    [BYTES] = {.name = "bytes", .usual = 256, .least = 8, .most = 32768},
    [CYCLES] = {.name = "cycles", .usual = 20, .least = 1, .most = 1000000, .scales = true},
    [ORDER] = {.name = "order", .usual = BY_PAGES, .least = BY_PAGES, .most = AS_MADE,
               .words = orders},
    [REMOTE] = {.name = "remote", .usual = 0, .least = 0, .most = 1},
    [CLOCK] = {.name = "clock", .usual = FIRST_CLOCK, .least = FIRST_CLOCK, .most = THREAD,
               .words = clocks},
    {.name = NULL},
};

enum { PAGE = 4096, READINGS = 20000, ROWS = 64 };

struct drain {
    const struct order *order;
    struct ledger ledger;
    struct owner owner;
    struct slot *slots, *spare; /* two tables of `objects` */
    struct histogram frees;
    bool planted;
};

static inline uint64_t reading(uint64_t clock)
{
    if (clock == TSC)
        return tsc();
    struct timespec t;
    clock_gettime(clock == THREAD ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *make(void *context)
{
    struct drain *drain = context;
    if (drain->order->values[REMOTE])
        pin_to(MAKER);
    for (uint64_t i = 0; i < drain->order->values[OBJECTS]; i++)
        book(&drain->ledger, &drain->slots[i], drain->order->values[BYTES],
             next_mark(&drain->owner));
    return NULL;
}

static void shuffle(struct drain *drain)
{
    for (uint32_t i = (uint32_t)drain->order->values[OBJECTS] - 1; i > 0; i--) {
        uint32_t other = below(&drain->owner, i + 1);
        struct slot slot = drain->slots[i];
        drain->slots[i] = drain->slots[other];
        drain->slots[other] = slot;
    }
}

/* By address: a byte a pass from the lowest, each pass stable. qsort would
 * allocate. */
static void sort_by_address(struct drain *drain)
{
    uint64_t nr = drain->order->values[OBJECTS];
    for (unsigned shift = 0; shift < 48; shift += 8) {
        uint64_t from[257] = {0};
        for (uint64_t i = 0; i < nr; i++)
            from[((uintptr_t)drain->slots[i].at >> shift & 0xff) + 1]++;
        for (unsigned byte = 0; byte < 256; byte++)
            from[byte + 1] += from[byte];
        for (uint64_t i = 0; i < nr; i++)
            drain->spare[from[(uintptr_t)drain->slots[i].at >> shift & 0xff]++] = drain->slots[i];
        struct slot *sorted = drain->spare;
        drain->spare = drain->slots;
        drain->slots = sorted;
    }
}

/* The first object of each page, then the second, and so on. */
static void deal_by_pages(struct drain *drain)
{
    enum { MOST_A_PAGE = PAGE / 8 };
    uint64_t nr = drain->order->values[OBJECTS], from[MOST_A_PAGE + 1] = {0};
    sort_by_address(drain);
    for (int counts = 1; counts >= 0; counts--) {
        uintptr_t page = 0;
        unsigned rank = 0;
        for (uint64_t i = 0; i < nr; i++) {
            uintptr_t of = (uintptr_t)drain->slots[i].at / PAGE;
            rank = of == page ? rank + 1 : 0;
            page = of;
            if (counts)
                from[rank + 1]++;
            else
                drain->spare[from[rank]++] = drain->slots[i];
        }
        for (unsigned r = 0; counts && r < MOST_A_PAGE; r++)
            from[r + 1] += from[r];
    }
    struct slot *dealt = drain->spare;
    drain->spare = drain->slots;
    drain->slots = dealt;
}

static void put_in_order(struct drain *drain)
{
    if (drain->order->values[ORDER] == BY_PAGES)
        deal_by_pages(drain);
    else if (drain->order->values[ORDER] == RANDOM)
        shuffle(drain);
}

static uint64_t cost_of_clock(uint64_t clock)
{
    static struct histogram empty;
    for (int i = 0; i < READINGS; i++) {
        uint64_t start = reading(clock), end = reading(clock);
        count(&empty, end - start);
    }
    return (uint64_t)percentile(&empty, 0.5);
}

/* Outside of what is timed the object is looked at, and its line is warm: a
 * program that frees an object mostly has just used it. */
static void free_timed(struct drain *drain, struct slot *slot, uint64_t cost)
{
    uint64_t clock = drain->order->values[CLOCK];
    enum plant plant = drain->planted ? drain->order->plant : NOTHING;
    drain->planted = false;
    if (plant == SPOIL)
        spoil(slot);
    check_ends(slot->at, slot->size, slot->mark);
    if (plant == KEEP)
        return;
    uint64_t start = reading(clock);
    free(slot->at);
    uint64_t time = reading(clock) - start;
    drain->ledger.freed++;
    if (plant != LOSE)
        count(&drain->frees, time > cost ? time - cost : 0);
}

static void say_times(const struct drain *drain, double ns_a_tick, double cost)
{
    const struct histogram *h = &drain->frees;
    uint64_t rows[ROWS] = {0};
    dprintf(STDOUT_FILENO, "clock %s %.1f\n", clocks[drain->order->values[CLOCK]],
            cost * ns_a_tick);
    dprintf(STDOUT_FILENO, "frees %" PRIu64 " %.1f %.1f %.1f %.1f\n", h->count,
            percentile(h, 0.5) * ns_a_tick, percentile(h, 0.99) * ns_a_tick,
            percentile(h, 0.999) * ns_a_tick, (double)h->max * ns_a_tick);
    /* Row 0: below 1 ns; row r: from 2^(r-1) on. */
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        uint64_t ns = (uint64_t)(value_of(bucket) * ns_a_tick);
        rows[ns ? 64 - __builtin_clzll(ns) : 0] += h->buckets[bucket];
    }
    for (unsigned r = 0; r < ROWS; r++)
        if (rows[r])
            dprintf(STDOUT_FILENO, "row %" PRIu64 " %" PRIu64 "\n",
                    r ? (uint64_t)1 << (r - 1) : 0, rows[r]);
}

static void run(const struct order *order)
{
    uint64_t nr = order->values[OBJECTS], clock = order->values[CLOCK];
    struct job job = {.scale = 1, .seed = order->seed};
    struct drain *drain = map_table(1, sizeof *drain);
    drain->order = order;
    drain->owner = new_owner(&job, 0);
    drain->slots = map_table(nr, sizeof(struct slot));
    drain->spare = map_table(nr, sizeof(struct slot));
    drain->planted = true;
    struct rusage before, after;

    pin_to(FREER);
    uint64_t cost = cost_of_clock(clock);
    getrusage(RUSAGE_SELF, &before);
    uint64_t start_ns = now_ns(), start = reading(clock);
    for (uint64_t n = 0; n < order->values[CYCLES]; n++) {
        if (order->values[REMOTE])
            run_threads(1, make, drain, sizeof *drain);
        else
            make(drain);
        put_in_order(drain);
        for (uint64_t i = 0; i < nr; i++)
            free_timed(drain, &drain->slots[i], cost);
    }
    uint64_t ns = now_ns() - start_ns;
    double ns_a_tick = clock == TSC ? (double)ns / (double)(reading(clock) - start) : 1;
    getrusage(RUSAGE_SELF, &after);

    uint64_t frees = nr * order->values[CYCLES];
    settle(&drain->ledger, 1, "objects");
    if (drain->frees.count != frees)
        fail("%" PRIu64 " of %" PRIu64 " frees were timed", drain->frees.count, frees);
    say(frees, ns);
    say_times(drain, ns_a_tick, (double)cost);
    dprintf(STDOUT_FILENO, "switches %ld\n", after.ru_nivcsw - before.ru_nivcsw);
}

const struct shape shape_drain = {
    .name = "drain",
    .threads = 1,
    .words = "frees 20,000 objects of 256 bytes, one of each page in turn, and times each free "
             "(5 MB live)",
    .settings = settings,
    .run = run,
};
