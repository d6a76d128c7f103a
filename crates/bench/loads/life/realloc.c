/* realloc_growth: vectors that grow as those of standard libraries do.
 *
 * Vectors are appended to at random and grow by 2 (libstdc++) or by 1.5
 * (Folly's FBVector, whose description says why); now and then one grows very
 * large, which an allocator may do in place or by moving pages.
 */
#include "life.h"

enum { VECTORS = 2000, LONGEST = 4096, APPENDS = 800000, APPENDED = 32 };

/* Word k holds mark + k. */
struct vector {
    uint64_t *words;
    uint32_t used, room;
    uint32_t mark;
    bool doubles;
};

static void check_vector(const struct vector *vector, size_t k)
{
    if (vector->words[k] != (uint64_t)vector->mark + k)
        spoiled(vector->words, vector->room * sizeof(uint64_t));
}

/* What realloc moved: both ends and the middle. */
static void check_some(const struct vector *vector, size_t used)
{
    if (used == 0)
        return;
    check_vector(vector, 0);
    check_vector(vector, used / 2);
    check_vector(vector, used - 1);
}

static void grow(struct vector *vector)
{
    uint32_t room = vector->doubles ? vector->room * 2 : vector->room + vector->room / 2;
    vector->room = room < 2 ? 2 : room;
    size_t size = vector->room * sizeof(uint64_t);
    vector->words = got(realloc(vector->words, size), size);
}

static void drop(struct vector *vector)
{
    for (size_t k = 0; k < vector->used; k += 16)
        check_vector(vector, k);
    check_some(vector, vector->used);
    free(vector->words);
    vector->words = NULL;
    vector->used = vector->room = 0;
}

/* The number of reallocations. */
static uint64_t append(struct vector *vector, uint32_t nr)
{
    uint64_t grown = 0;
    for (; nr > 0; nr--) {
        if (vector->used == vector->room) {
            grow(vector);
            check_some(vector, vector->used);
            grown++;
        }
        vector->words[vector->used] = (uint64_t)vector->mark + vector->used;
        vector->used++;
    }
    return grown;
}

static uint64_t run_many(const struct job *job)
{
    struct vector *vectors = map_table(VECTORS, sizeof *vectors);
    struct owner owner = new_owner(job, 0);
    uint64_t ops = 0;
    for (uint64_t n = scaled(job, APPENDS); n > 0; n--) {
        struct vector *vector = &vectors[below(&owner, VECTORS)];
        if (vector->used == 0) {
            vector->mark = next_mark(&owner);
            vector->doubles = below(&owner, 2);
        }
        ops += append(vector, between(&owner, 1, APPENDED));
        if (vector->used > LONGEST - below(&owner, LONGEST / 4))
            drop(vector);
    }
    for (unsigned i = 0; i < VECTORS; i++)
        drop(&vectors[i]);
    unmap_table(vectors, VECTORS, sizeof *vectors);
    return ops;
}

enum { LARGE_FIRST = 4096, LARGE_LAST = 8 << 20, LARGE_VECTORS = 6 };

/* Written to the end of the room before each growth, a word of each line. */
static uint64_t run_large(const struct job *job)
{
    enum { LINE = 8 };
    uint64_t ops = 0;
    for (uint64_t n = 0; n < scaled(job, LARGE_VECTORS); n++) {
        struct vector vector = {.room = LARGE_FIRST / 2, .mark = (uint32_t)n, .doubles = n % 2};
        uint32_t written = 0;
        do {
            grow(&vector);
            ops++;
            for (uint32_t k = 0; k < written; k += 512)
                check_vector(&vector, k);
            for (; written < vector.room; written += LINE)
                vector.words[written] = (uint64_t)vector.mark + written;
        } while (vector.room < LARGE_LAST);
        free(vector.words);
    }
    return ops;
}

static uint64_t run(const struct job *job)
{
    return run_many(job) + run_large(job);
}

const struct load load_realloc_growth = {
    .name = "realloc_growth",
    .threads = 1,
    .words = "2000 vectors grow by 1.5 or 2 up to 48 KiB, then single ones up to 64 MiB and "
             "more (96 MB live at most)",
    .run = run,
};
