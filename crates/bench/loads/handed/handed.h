/* What the loads of `handed` share: what is asked of one, and its threads' CPUs. */
#ifndef HANDED_H
#define HANDED_H

#include "../life/life.h"

enum { MOST_THREADS = 64, MOST_BATCH = 64 };
enum plant { NOTHING, LOST, SHARED, APART };

struct order {
    const char *name, *words;
    void (*run)(const struct order *order);
    uint64_t threads, pinned, batch, stages, mixed; /* mixed sizes: else small ones */
    uint64_t rest_ms;
    enum plant plant;
    double scale;
};

void pass_on(const struct order *order);
void share_lines(const struct order *order);

/* Keeps this thread on the `nth` of the CPUs that the process has, from the first on again. */
void pin(uint64_t nth);

/* How many CPUs the process has. */
uint64_t count_cpus(void);

#endif
