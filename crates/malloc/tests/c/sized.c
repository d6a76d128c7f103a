/*
 * Frees with a size after random legal sequences: the size is the one that was last asked for,
 * by malloc, calloc, aligned_alloc, realloc or new, whatever the allocator made of it (C23,
 * 7.24.3). None of them may be reported; the contents stay.
 */
#include "check.h"
#include <malloc.h>

#define NR 64
#define STEPS 2500

static void (*sized)(void *, size_t);
static void (*aligned_sized)(void *, size_t, size_t);
static void *(*new_one)(size_t);
static void (*delete_sized)(void *, size_t);
static void *(*new_aligned)(size_t, size_t);
static void (*delete_aligned)(void *, size_t, size_t);

/* Who allocated, and so who must free. */
enum maker { MALLOC, ALIGNED, NEW, NEW_ALIGNED };

static struct block {
    unsigned char *at;
    size_t bytes, align;
    uint64_t seed;
    enum maker maker;
} blocks[NR];

static uint64_t state = 0x5eed;

static size_t below(size_t n)
{
    return next_random(&state) % n;
}

static size_t any_size(void)
{
    switch (below(8)) {
    case 0: return below(64);
    case 1: return below(300000);
    case 2: return below(3000000);
    default: return below(1 << (4 + below(13)));
    }
}

static size_t new_size(size_t bytes)
{
    switch (below(6)) {
    case 0: return any_size() + 1;
    case 1: return bytes / 2 + 1;
    case 2: return bytes - below(bytes / 4 + 1) + 1;
    default: return bytes + below(bytes / 8 + 64) + 1;
    }
}

static void take(struct block *b)
{
    size_t n = any_size(), align = (size_t)16 << below(10);

    *b = (struct block){.bytes = n, .maker = MALLOC};
    switch (below(7)) {
    case 0: b->at = malloc(n); break;
    case 1: b->at = realloc(NULL, n); break;
    case 2:
        b->at = calloc(n / 8, 8);
        b->bytes = n / 8 * 8;
        CHECK(all_zero(b->at, b->bytes), "calloc of %zu", n);
        break;
    case 3:
        b->bytes = (n + align - 1) / align * align;
        b->at = aligned_alloc(align, b->bytes);
        b->align = align, b->maker = ALIGNED;
        break;
    case 4:
        b->bytes = n;
        b->at = aligned_alloc(align, n);
        b->align = align, b->maker = ALIGNED;
        break;
    case 5:
        if (new_one && delete_sized) {
            b->at = new_one(n);
            b->maker = NEW;
            break;
        }
        b->at = malloc(n);
        break;
    default:
        if (new_aligned && delete_aligned) {
            b->at = new_aligned(n, align);
            b->align = align, b->maker = NEW_ALIGNED;
            break;
        }
        b->at = malloc(n);
    }
    CHECK(b->at, "no block of %zu", b->bytes);
    CHECK(aligned_to(b->at, b->align ? b->align : 16), "%p is not aligned to %zu", b->at, b->align);
    b->seed = next_random(&state);
    fill(b->at, b->bytes, b->seed);
}

static void resize(struct block *b)
{
    size_t n = new_size(b->bytes);
    size_t least = n < b->bytes ? n : b->bytes;
    unsigned char *at;

    CHECK(intact(b->at, b->bytes, b->seed), "%zu bytes before realloc", b->bytes);
    at = realloc(b->at, n);
    CHECK(at, "realloc to %zu", n);
    b->at = at;
    /* A part of the last word may be lost. */
    CHECK(intact(at, least & ~(size_t)7, b->seed) || least < b->bytes, "%zu bytes after realloc",
          least);
    /* All that may be used is. */
    if (below(4) == 0)
        memset(at, 0, malloc_usable_size(at));
    b->bytes = n;
    b->maker = MALLOC;
    fill(at, n, b->seed);
}

static void give(struct block *b)
{
    CHECK(intact(b->at, b->bytes, b->seed), "%zu bytes before a free", b->bytes);
    switch (b->maker) {
    case MALLOC: sized ? sized(b->at, b->bytes) : free(b->at); break;
    case ALIGNED:
        aligned_sized ? aligned_sized(b->at, b->align, b->bytes) : free(b->at);
        break;
    case NEW: delete_sized(b->at, b->bytes); break;
    case NEW_ALIGNED: delete_aligned(b->at, b->bytes, b->align); break;
    }
    b->at = NULL;
}

/* A small block of an alignment that no object has grows, and stays small. */
static void grow_aligned(void)
{
    for (size_t align = 4096; align <= 1 << 20; align *= 2)
        for (size_t bytes = 100; bytes < 18000; bytes += 1777) {
            unsigned char *at = aligned_alloc(align, bytes);

            CHECK(aligned_to(at, align), "%p is not aligned to %zu", at, align);
            fill(at, bytes, bytes);
            at = realloc(at, bytes + 6000);
            CHECK(at && intact(at, bytes, bytes), "%zu bytes after realloc", bytes);
            sized ? sized(at, bytes + 6000) : free(at);
        }
}

int main(void)
{
    sized = dlsym(RTLD_DEFAULT, "free_sized");
    aligned_sized = dlsym(RTLD_DEFAULT, "free_aligned_sized");
    new_one = dlsym(RTLD_DEFAULT, "_Znwm");
    delete_sized = dlsym(RTLD_DEFAULT, "_ZdlPvm");
    new_aligned = dlsym(RTLD_DEFAULT, "_ZnwmSt11align_val_t");
    delete_aligned = dlsym(RTLD_DEFAULT, "_ZdlPvmSt11align_val_t");
    grow_aligned();
    for (int i = 0; i < STEPS; i++) {
        struct block *b = &blocks[below(NR)];

        if (!b->at)
            take(b);
        else if (below(3) && (b->maker == MALLOC || b->maker == ALIGNED))
            resize(b);
        else
            give(b);
    }
    for (int i = 0; i < NR; i++)
        if (blocks[i].at)
            give(&blocks[i]);
    return finish("sized");
}
