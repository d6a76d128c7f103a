/*
 * Alignment, whatever came before: each size and alignment, to 2^31, after blocks of all
 * sizes that come and go, and where there are more mappings than are known by name.
 */
#include "check.h"
#include <malloc.h>

#define KEPT 24
/* Below the pages that a machine has: large blocks are touched at both ends alone. */
#define LARGEST_ALIGNMENT ((size_t)1 << 31)

static uint64_t state = 0x9e3779b97f4a7c15u;

static size_t below(size_t n)
{
    return next_random(&state) % n;
}

static void *aligned_block(int way, size_t alignment, size_t size)
{
    void *p = NULL;

    switch (way % 3) {
    case 0:
        return posix_memalign(&p, alignment < 8 ? 8 : alignment, size) == 0 ? p : NULL;
    case 1:
        return memalign(alignment, size);
    default:
        return aligned_alloc(alignment, (size + alignment - 1) & -alignment);
    }
}

static void check_aligned(int way, size_t alignment, size_t size)
{
    unsigned char *p = aligned_block(way, alignment, size);

    CHECK(p || size > 1u << 30 || alignment > 1u << 30, "no memory for %zu, aligned to %zu",
          size, alignment);
    CHECK(((uintptr_t)p & (alignment - 1)) == 0, "%p for alignment %zu, size %zu", (void *)p,
          alignment, size);
    if (!p)
        return;
    if (size) {
        p[0] = 1;
        p[size - 1] = 2;
    }
    free(p);
}

/* Blocks that come and go: what they leave behind is where the next one may lie. */
static void history(void **kept)
{
    size_t i = below(KEPT);

    free(kept[i]);
    switch (below(4)) {
    case 0:
        kept[i] = malloc(below(64 << 10));
        break;
    case 1:
        kept[i] = malloc(below(4 << 20));
        break;
    case 2:
        kept[i] = realloc(malloc(1 << 20), below(8 << 20) + 1);
        break;
    default:
        kept[i] = memalign((size_t)1 << below(24), below(1 << 20));
    }
}

static void each_alignment(void **kept)
{
    static const size_t sizes[] = { 1, 100, 5000, 100000, 1 << 20, 3 << 20, 64 << 20 };
    size_t alignment, i;
    int way = 0;

    for (alignment = 2; alignment <= LARGEST_ALIGNMENT; alignment *= 2) {
        for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            history(kept);
            /* A large block was freed a moment ago: such blocks come and go. */
            free(opaque(malloc((2 << 20) + below(6 << 20))));
            check_aligned(way++, alignment, sizes[i]);
            check_aligned(way++, alignment, below(sizes[i]) + 1);
        }
        /* A vector of blocks so aligned, which grows. */
        check_aligned(1, alignment, alignment < 256 << 20 ? alignment : 1);
    }
}

static void among_many_mappings(void **kept)
{
    enum { MANY = 4500 };
    static void *many[MANY];
    size_t i, alignment;

    for (i = 0; i < MANY; i++)
        many[i] = malloc((1 << 20) + (1 << 16));
    for (alignment = 1 << 12; alignment <= 256 << 20; alignment *= 2) {
        void *p = memalign(alignment, 3 << 20);

        /* Some allocator may refuse it here; none may misalign it. */
        CHECK(((uintptr_t)p & (alignment - 1)) == 0, "%p for alignment %zu", p, alignment);
        free(p);
        history(kept);
    }
    for (i = 0; i < MANY; i++)
        free(many[i]);
}

int main(void)
{
    static void *kept[KEPT];
    int round;

    for (round = 0; round < 6; round++)
        each_alignment(kept);
    among_many_mappings(kept);
    each_alignment(kept);
    return finish("aligned");
}
