/* crossthread and threads_64: threads that exchange objects through a board.
 *
 * crossthread follows the description of mstress (Leijen, in mimalloc's
 * tests): threads come in generations, swap objects at random places of a
 * shared array, and leave objects to those that come later. threads_64 has
 * more threads than any CPU count of today's small machines, each mostly busy
 * with its own objects.
 *
 * An object says its size itself. Its mark is in the object and, shortened, in
 * the pointer to it: so one exchange moves both, and an object that was given
 * to two threads does not vouch for itself.
 */
#include "life.h"

#include <stdatomic.h>

struct parcel {
    uint32_t mark, size; /* and the mark again at the end */
};

/* Of a parcel: 48 bits of its address, below the mark's lowest 16. 0: none. */
typedef uint64_t label;
enum { ADDRESS_BITS = 48 };

/* One thread's life. */
struct stay {
    struct owner owner;
    uint64_t steps;
    uint32_t (*size)(struct owner *owner);
    label *kept;
    unsigned nr_kept;
    _Atomic label *board;
    unsigned nr_places;
    unsigned swap_one_in;
};

static label pack(struct owner *owner, uint32_t size)
{
    struct parcel *parcel = got(malloc(size), size);
    uint32_t mark = next_mark(owner);
    if (size < sizeof *parcel + sizeof mark || (uintptr_t)parcel >> ADDRESS_BITS)
        fail("a parcel of %u bytes at %p has no label", size, (void *)parcel);
    mark_ends(parcel, size, mark);
    parcel->size = size;
    return (uintptr_t)parcel | (uint64_t)mark << ADDRESS_BITS;
}

static void unpack(label label)
{
    if (!label)
        return;
    struct parcel *parcel = (void *)(uintptr_t)(label << 16 >> 16);
    if ((uint16_t)parcel->mark != label >> ADDRESS_BITS)
        spoiled(parcel, parcel->size);
    check_ends(parcel, parcel->size, parcel->mark);
    free(parcel);
}

/* Each step packs one and unpacks what it displaces. */
static void *stay(void *context)
{
    struct stay *me = context;
    for (uint64_t i = 0; i < me->steps; i++) {
        label parcel = pack(&me->owner, me->size(&me->owner));
        if (below(&me->owner, me->swap_one_in) == 0)
            parcel = atomic_exchange(&me->board[below(&me->owner, me->nr_places)], parcel);
        label *kept = &me->kept[below(&me->owner, me->nr_kept)];
        unpack(*kept);
        *kept = parcel;
    }
    return NULL;
}

static void clear(label *kept, size_t nr_kept, _Atomic label *board, size_t nr_places)
{
    for (size_t i = 0; i < nr_kept; i++)
        unpack(kept[i]);
    for (size_t i = 0; i < nr_places; i++)
        unpack(atomic_exchange(&board[i], 0));
}

enum { THREADS = 4, GENERATIONS = 12, STEPS = 30000, KEPT = 6000, PLACES = 2000 };

/* Nine in ten are small, one in a hundred has up to 64 KiB. */
static uint32_t mostly_small(struct owner *owner)
{
    uint32_t kind = below(owner, 100);
    return between(owner, 16, kind < 90 ? 512 : kind < 99 ? 8192 : 65536);
}

/* A generation works on what the one before kept, each thread on another's. */
static uint64_t run_crossthread(const struct job *job)
{
    label *kept = map_table(THREADS * KEPT, sizeof *kept);
    _Atomic label *board = map_table(PLACES, sizeof *board);
    for (unsigned g = 0; g < GENERATIONS; g++) {
        struct stay stays[THREADS];
        for (unsigned i = 0; i < THREADS; i++)
            stays[i] = (struct stay){
                .owner = new_owner(job, g * THREADS + i),
                .steps = scaled(job, STEPS),
                .size = mostly_small,
                .kept = kept + (g + i) % THREADS * KEPT,
                .nr_kept = KEPT,
                .board = board,
                .nr_places = PLACES,
                .swap_one_in = 2,
            };
        run_threads(THREADS, stay, stays, sizeof *stays);
    }
    clear(kept, THREADS * KEPT, board, PLACES);
    unmap_table(board, PLACES, sizeof *board);
    unmap_table(kept, THREADS * KEPT, sizeof *kept);
    return THREADS * GENERATIONS * scaled(job, STEPS);
}

const struct load load_crossthread = {
    .name = "crossthread",
    .threads = THREADS,
    .words = "objects of 16 bytes to 64 KiB are swapped between threads and outlive them, "
             "for 12 generations (26 MB live)",
    .run = run_crossthread,
};

enum { CROWD = 64, CROWD_STEPS = 80000, CROWD_KEPT = 1000, CROWD_PLACES = 4096 };

static uint32_t small(struct owner *owner)
{
    return between(owner, 16, 1024);
}

static uint64_t run_threads_64(const struct job *job)
{
    label *kept = map_table(CROWD * CROWD_KEPT, sizeof *kept);
    _Atomic label *board = map_table(CROWD_PLACES, sizeof *board);
    struct stay stays[CROWD];
    for (unsigned i = 0; i < CROWD; i++)
        stays[i] = (struct stay){
            .owner = new_owner(job, i),
            .steps = scaled(job, CROWD_STEPS),
            .size = small,
            .kept = kept + i * CROWD_KEPT,
            .nr_kept = CROWD_KEPT,
            .board = board,
            .nr_places = CROWD_PLACES,
            .swap_one_in = 8,
        };
    run_threads(CROWD, stay, stays, sizeof *stays);
    clear(kept, CROWD * CROWD_KEPT, board, CROWD_PLACES);
    unmap_table(board, CROWD_PLACES, sizeof *board);
    unmap_table(kept, CROWD * CROWD_KEPT, sizeof *kept);
    return CROWD * scaled(job, CROWD_STEPS);
}

const struct load load_threads_64 = {
    .name = "threads_64",
    .threads = CROWD,
    .words = "64 threads replace 16 to 1024 bytes at random, and one in eight changes its "
             "thread (36 MB live)",
    .run = run_threads_64,
};
