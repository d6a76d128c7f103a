/* What the loads of `kernel` share: their description and settings, members
 * that run as threads or processes, and the ledger of their self-check.
 *
 * Each load is the shape in user space of one that kernel developers measure
 * slab allocators with. As the loads of `life` they know no allocator, mark
 * what they allocate, and hold their tables in mappings of their own.
 *
 * The self-check: what was allocated was freed, what was sent arrived, once
 * and in order, and each object was as it was left. `--plant` breaks one of
 * the three, and the load must fail.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include "../life/life.h"

#include <pthread.h>
#include <stdatomic.h>

/* A number, or a word that stands for one, that a load takes as NAME=VALUE. */
struct setting {
    const char *name; /* NULL: the end of a load's settings */
    uint64_t usual, least, most;
    bool scales;              /* with `--scale` */
    const char *const *words; /* by number; NULL: a number is given */
};

enum { MOST_SETTINGS = 8 };

enum plant { NOTHING, LOSE, SPOIL, KEEP };

/* When a load stays as it is, to be looked at from outside. */
enum moment { NEVER, LIVE, ENDED };

struct order {
    uint64_t seed;
    uint64_t cpus; /* at most */
    enum plant plant;
    enum moment hold;
    uint64_t values[MOST_SETTINGS]; /* as the load's settings */
};

struct shape {
    const char *name;
    int threads; /* that run at the same time, by the usual settings */
    const char *words;
    const struct setting *settings;
    void (*run)(const struct order *order);
};

/* What was done by one member; its own until the member ended. On a cache
 * line of its own, in memory that processes share. */
struct ledger {
    _Alignas(64) uint64_t allocated;
    uint64_t freed, sent, arrived;
};

static inline void book(struct ledger *ledger, struct slot *slot, size_t size, uint32_t mark)
{
    hold(slot, got(malloc(size), size), size, mark);
    ledger->allocated++;
}

static inline void unbook(struct ledger *ledger, struct slot *slot)
{
    empty(slot);
    ledger->freed++;
}

/* Breaks what `book` made: the last byte, which is a mark's. */
static inline void spoil(const struct slot *slot)
{
    ((unsigned char *)slot->at)[slot->size - 1] ^= 0x40;
}

/* A table of zeros that processes share. */
void *share_table(size_t nr, size_t size);

uint64_t now_ns(void);

/* Once, before anybody is bound to a CPU: asks which CPUs the process may use, and
 * leaves it the first `most` of them. */
void know_cpus(uint64_t most);

/* Binds the calling thread to the n-th of those CPUs, counted round. */
void pin_to(unsigned n);

/* What a member is: a thread of this process, or a process. */
enum kind { THREADS, PROCESSES };

/* Where members wait for each other. The first one through notes the time: another
 * thread, which waits for them, may not run before they are done. */
struct gate {
    pthread_barrier_t barrier;
    _Atomic uint64_t opened_ns; /* 0: nobody is through */
};

/* For `nr` members. */
struct gate *new_gate(unsigned nr);

void pass(struct gate *gate);

/* Runs `body` in `nr` members, each with its own one of `contexts`, and waits
 * for all. Each passes the gate when it is ready; the time is from there to the
 * end of the last. */
uint64_t run_members(enum kind kind, unsigned nr, void *(*body)(void *), void *contexts,
                     size_t size, struct gate *gate);

/* The sums; fails if they do not agree. */
struct ledger settle(const struct ledger *ledgers, unsigned nr, const char *sent_what);

/* If this is the moment to hold: says `held`, and waits for the end of standard input. A
 * request to the allocator is served by its slow paths, so that the process goes on
 * making calls meanwhile: a pair each 10 ms. */
void hold_at(const struct order *order, enum moment moment);

/* `ops N` and `ns N`, which each load says at its end. */
void say(uint64_t ops, uint64_t ns);

#endif
