/* What the loads of `life` share, and those of `kernel` with them: their
 * description, random numbers, and objects that bear a mark.
 *
 * A load knows no allocator. It writes its owner's mark at both ends of each
 * object and looks for it before the object goes, so that an allocator that
 * hands out memory twice, moves too little or gives too small an object is
 * found. The tables of a load are mapped, so that the allocator under test
 * holds nothing but the objects.
 *
 * Work depends on the scale and the seed alone: counts are fixed for each
 * thread, and one operation is one allocation or reallocation, with its free.
 * The scale multiplies rounds, never the memory that is live.
 */
#ifndef LIFE_H
#define LIFE_H

#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct job {
    double scale;
    uint64_t seed;
};

struct load {
    const char *name;
    int threads; /* that allocate at the same time, at most */
    const char *words;
    uint64_t (*run)(const struct job *job); /* operations done */
};

/* Every load, in the order of the list. */
#define EACH_LOAD(X)                                                           \
    X(larson) X(prodcons) X(crossthread) X(lifo) X(reversed)                   \
    X(sizes_pareto) X(sizes_linear) X(sizes_powerlaw) X(sizes_every)           \
    X(scratch) X(thrash) X(realloc_growth) X(large) X(calloc_mix)              \
    X(aligned_mix) X(churn) X(fork_while) X(fragment) X(burst_idle) X(tree)    \
    X(strings) X(cold) X(threads_64) X(web) X(brief_threads) X(buffers)        \
    X(tenth)

#define DECLARE_LOAD(name) extern const struct load load_##name;
EACH_LOAD(DECLARE_LOAD)

/* What `life noop` is: the smallest process, for `cold`. */
int noop(void);

/* Ends the process with 1 and words. */
_Noreturn void fail(const char *format, ...) __attribute__((cold, format(printf, 1, 2)));
_Noreturn void spoiled(const void *at, size_t size) __attribute__((cold));

/* False unless the whole word is a scale above 0, or a whole number. */
bool parse_scale(const char *word, double *scale);
bool parse_number(const char *word, uint64_t *number);

/* A table of zeros from the system. */
void *map_table(size_t nr, size_t size);
void unmap_table(void *table, size_t nr, size_t size);

/* Runs `body` in `nr` threads, each with its own one of `contexts`, and waits. */
void run_threads(unsigned nr, void *(*body)(void *), void *contexts, size_t size);

/* `rounds` times the scale, 1 at least. */
static inline uint64_t scaled(const struct job *job, uint64_t rounds)
{
    double wanted = (double)rounds * job->scale;
    return wanted < 1 ? 1 : (uint64_t)wanted;
}

/* Who allocates: a source of random numbers and of marks. */
struct owner {
    uint64_t random; /* never 0 */
    uint32_t mark;   /* 8 bits of who, 24 that count */
};

static inline struct owner new_owner(const struct job *job, uint64_t who)
{
    /* The finalizer of MurmurHash3 (Appleby): near seeds give far states. */
    uint64_t h = job->seed * 0x9e3779b97f4a7c15 + who + 1;
    h = (h ^ h >> 33) * 0xff51afd7ed558ccd;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53;
    h ^= h >> 33;
    return (struct owner){.random = h ? h : 1, .mark = (uint32_t)who << 24};
}

/* Marsaglia, "Xorshift RNGs", 2003. */
static inline uint64_t draw(struct owner *owner)
{
    uint64_t x = owner->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return owner->random = x;
}

/* From 0 to `limit` - 1. */
static inline uint32_t below(struct owner *owner, uint32_t limit)
{
    return (uint32_t)((draw(owner) >> 32) * limit >> 32);
}

/* From `least` to `most`, both of them possible. */
static inline uint32_t between(struct owner *owner, uint32_t least, uint32_t most)
{
    return least + below(owner, most - least + 1);
}

static inline uint32_t next_mark(struct owner *owner)
{
    uint32_t who = owner->mark & 0xff000000;
    owner->mark = who | ((owner->mark + 1) & 0xffffff);
    return owner->mark;
}

/* The compiler knows malloc's family; here it must forget what it knows. */
static inline void *got(void *at, size_t size)
{
    if (!at)
        fail("no memory for %zu bytes", size);
    __asm__ volatile("" : "+r"(at) : : "memory");
    return at;
}

static inline void mark_ends(void *at, size_t size, uint32_t mark)
{
    unsigned char *bytes = at;
    if (size >= sizeof mark) {
        memcpy(bytes + size - sizeof mark, &mark, sizeof mark);
        memcpy(bytes, &mark, sizeof mark);
    } else if (size) {
        bytes[0] = bytes[size - 1] = (unsigned char)mark;
    }
}

static inline void check_word(const void *at, size_t offset, uint32_t mark, size_t size)
{
    uint32_t found;
    memcpy(&found, (const unsigned char *)at + offset, sizeof found);
    if (found != mark)
        spoiled(at, size);
}

static inline void check_ends(const void *at, size_t size, uint32_t mark)
{
    const unsigned char *bytes = at;
    if (size >= 2 * sizeof mark) {
        check_word(at, 0, mark, size);
        check_word(at, size - sizeof mark, mark, size);
    } else if (size >= sizeof mark) {
        check_word(at, 0, mark, size); /* written last, where the two overlap */
    } else if (size) {
        if (bytes[0] != (unsigned char)mark || bytes[size - 1] != (unsigned char)mark)
            spoiled(at, size);
    }
}

/* An object and what is written in it. */
struct slot {
    void *at; /* NULL: none */
    uint32_t size, mark;
};

static inline void hold(struct slot *slot, void *at, size_t size, uint32_t mark)
{
    mark_ends(at, size, mark);
    *slot = (struct slot){.at = at, .size = (uint32_t)size, .mark = mark};
}

static inline void fill(struct slot *slot, struct owner *owner, size_t size)
{
    hold(slot, got(malloc(size), size), size, next_mark(owner));
}

static inline void empty(struct slot *slot)
{
    if (!slot->at)
        return;
    check_ends(slot->at, slot->size, slot->mark);
    free(slot->at);
    slot->at = NULL;
}

static inline void empty_all(struct slot *slots, size_t nr)
{
    for (size_t i = 0; i < nr; i++)
        empty(&slots[i]);
}

#endif
