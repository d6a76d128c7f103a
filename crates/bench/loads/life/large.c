/* large: blocks of 1 to 64 MiB, again and again; buffers: of 5 to 25 MiB, more of them.
 *
 * What is freed is soon asked for again in another size, and every page is touched,
 * so that an allocator pays for giving all back at once, and is seen when it keeps
 * too much. `buffers` is as malloc-large of mimalloc-bench is described.
 */
#include "life.h"

enum { ROUNDS = 120, LIVE = 3, MIB = 1 << 20, PAGE = 4096, STEPS = 6 };
enum { BUFFER_ROUNDS = 300, BUFFERS = 20, LEAST_BUFFER = 5 * MIB, MOST_BUFFER = 25 * MIB };

/* 1 to 2 MiB as likely as 32 to 64 MiB. */
static uint32_t large_size(struct owner *owner)
{
    uint32_t base = (uint32_t)MIB << below(owner, STEPS);
    return base + below(owner, base) + 1;
}

/* A mark in each page and at the end. */
static void touch(const struct slot *slot)
{
    for (size_t offset = 0; offset + sizeof slot->mark <= slot->size; offset += PAGE)
        memcpy((char *)slot->at + offset, &slot->mark, sizeof slot->mark);
    mark_ends(slot->at, slot->size, slot->mark);
}

/* Both ends, and some pages between them but the last, where marks may meet. */
static void check_pages(const struct slot *slot, struct owner *owner)
{
    for (unsigned k = 0; k < 16; k++)
        check_word(slot->at, (size_t)below(owner, slot->size / PAGE - 1) * PAGE, slot->mark,
                   slot->size);
}

static uint32_t buffer_size(struct owner *owner)
{
    return between(owner, LEAST_BUFFER, MOST_BUFFER);
}

/* Blocks replace each other at random, of so many. */
static uint64_t replace(const struct job *job, unsigned live, uint64_t rounds,
                        uint32_t (*size)(struct owner *owner))
{
    struct slot *slots = map_table(live, sizeof *slots);
    struct owner owner = new_owner(job, 0);
    for (uint64_t round = 0; round < rounds; round++) {
        struct slot *slot = &slots[below(&owner, live)];
        if (slot->at)
            check_pages(slot, &owner);
        empty(slot);
        fill(slot, &owner, size(&owner));
        touch(slot);
    }
    empty_all(slots, live);
    unmap_table(slots, live, sizeof *slots);
    return rounds;
}

static uint64_t run_large(const struct job *job)
{
    return replace(job, LIVE, scaled(job, ROUNDS), large_size);
}

static uint64_t run_buffers(const struct job *job)
{
    return replace(job, BUFFERS, scaled(job, BUFFER_ROUNDS), buffer_size);
}

const struct load load_large = {
    .name = "large",
    .threads = 1,
    .words = "blocks of 1 to 64 MiB replace each other, three at a time, each page touched "
             "(190 MB live at most)",
    .run = run_large,
};

const struct load load_buffers = {
    .name = "buffers",
    .threads = 1,
    .words = "blocks of 5 to 25 MiB replace each other at random, 20 at a time, each page "
             "touched (300 MB live)",
    .run = run_buffers,
};
