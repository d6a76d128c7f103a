/* calloc_mix and aligned_mix: the members of malloc's family that promise more.
 *
 * calloc must give zeros, though objects are dirtied before they are freed;
 * the aligned functions must give the alignment. Programs that ask for these
 * ask for large ones more often than for small.
 */
#include "life.h"

#include <malloc.h>

enum { CALLOC_LIVE = 3000, CALLOC_STEPS = 500000 };

/* Mostly up to 1 KiB, some up to 16 KiB, few up to 256 KiB. */
static uint32_t zeroed_size(struct owner *owner)
{
    uint32_t kind = below(owner, 100);
    return between(owner, 16, kind < 80 ? 1024 : kind < 96 ? 16384 : 262144);
}

/* How far words lie apart that are looked at and dirtied. */
static size_t stride(size_t size)
{
    return size <= 1024 ? sizeof(uint32_t) : 128;
}

static void check_zero(const void *at, size_t size)
{
    for (size_t offset = 0; offset + sizeof(uint32_t) <= size; offset += stride(size))
        check_word(at, offset, 0, size);
    check_word(at, size - sizeof(uint32_t), 0, size);
}

static void dirty(void *at, size_t size)
{
    for (size_t offset = 0; offset + sizeof(uint32_t) <= size; offset += stride(size))
        memset((char *)at + offset, 0xdb, sizeof(uint32_t));
}

static uint64_t run_calloc(const struct job *job)
{
    struct slot *table = map_table(CALLOC_LIVE, sizeof *table);
    struct owner owner = new_owner(job, 0);
    uint64_t steps = scaled(job, CALLOC_STEPS);
    for (uint64_t i = 0; i < steps; i++) {
        struct slot *slot = &table[below(&owner, CALLOC_LIVE)];
        if (slot->at) {
            check_ends(slot->at, slot->size, slot->mark);
            dirty(slot->at, slot->size);
            free(slot->at);
        }
        uint32_t size = zeroed_size(&owner), unit = 1u << below(&owner, 5);
        size = (size + unit - 1) / unit * unit;
        void *at = got(calloc(size / unit, unit), size);
        check_zero(at, size);
        hold(slot, at, size, next_mark(&owner));
    }
    empty_all(table, CALLOC_LIVE);
    unmap_table(table, CALLOC_LIVE, sizeof *table);
    return steps;
}

const struct load load_calloc_mix = {
    .name = "calloc_mix",
    .threads = 1,
    .words = "calloc of 16 bytes to 256 KiB, checked for zeros, dirtied and freed at random "
             "(26 MB live)",
    .run = run_calloc,
};

enum { ALIGNED_LIVE = 10000, ALIGNED_STEPS = 1500000 };

/* From 16 bytes to a page, rarely 64 KiB; small ones are likelier. */
static uint32_t alignment_for(struct owner *owner)
{
    uint32_t kind = below(owner, 256);
    if (kind == 0)
        return 65536;
    return 16u << (kind < 160 ? below(owner, 4) : below(owner, 9));
}

static void *aligned(struct owner *owner, uint32_t alignment, uint32_t *size)
{
    void *at = NULL;
    switch (below(owner, 3)) {
    case 0:
        if (posix_memalign(&at, alignment, *size))
            at = NULL;
        break;
    case 1:
        *size = (*size + alignment - 1) / alignment * alignment; /* as C11 asks */
        at = aligned_alloc(alignment, *size);
        break;
    default:
        at = memalign(alignment, *size);
    }
    at = got(at, *size);
    if ((uintptr_t)at % alignment)
        fail("%p is not aligned to %u bytes", at, alignment);
    return at;
}

static uint64_t run_aligned(const struct job *job)
{
    struct slot *table = map_table(ALIGNED_LIVE, sizeof *table);
    struct owner owner = new_owner(job, 0);
    uint64_t steps = scaled(job, ALIGNED_STEPS);
    for (uint64_t i = 0; i < steps; i++) {
        struct slot *slot = &table[below(&owner, ALIGNED_LIVE)];
        empty(slot);
        uint32_t size = between(&owner, 1, below(&owner, 8) ? 512 : 8192);
        void *at = aligned(&owner, alignment_for(&owner), &size);
        hold(slot, at, size, next_mark(&owner));
    }
    empty_all(table, ALIGNED_LIVE);
    unmap_table(table, ALIGNED_LIVE, sizeof *table);
    return steps;
}

const struct load load_aligned_mix = {
    .name = "aligned_mix",
    .threads = 1,
    .words = "posix_memalign, aligned_alloc and memalign to 16 bytes to 64 KiB, of up to 8 "
             "KiB, at random (10 MB live)",
    .run = run_aligned,
};
