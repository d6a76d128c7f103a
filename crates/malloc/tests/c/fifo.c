/*
 * A thread of SCHED_FIFO beside normal threads on one CPU: it preempts them anywhere in their
 * slow paths, also where one holds a lock, and then needs the same locks. If it waits by spinning,
 * the holder never runs: so the CPU time of its bursts is compared with their median, which does
 * not depend on what else the machine does. With an argument it prints the longest burst, in
 * microseconds: CPU time and wall time, and their sums. Where the user may not have a priority, all
 * threads are normal.
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <time.h>

/* One that spins until the kernel throttles the thread takes 950 ms, 10,000 medians. */
enum { NORMAL = 3, OBJECTS = 400, BURSTS = 3000, PAUSE_US = 150, MOST_MEDIANS = 2000 };

static volatile int ended;

static double seconds(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Objects of a few classes and runs, more than sheaves hold: most calls need a list or pages. */
static void burst(uint64_t *state, void **objects, int nr)
{
    static const size_t sizes[] = {48, 3000, 9000, 20000, 30000, 50000};

    for (int i = 0; i < nr; i++) {
        objects[i] = opaque(malloc(sizes[next_random(state) % 6]));
        if (objects[i])
            *(size_t *)objects[i] = (size_t)i;
    }
    for (int i = 0; i < nr; i++) {
        CHECK(objects[i] && *(size_t *)objects[i] == (size_t)i, "object %d", i);
        free(objects[i]);
    }
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static void *be_normal(void *argument)
{
    uint64_t state = 88172645463325252u + (uintptr_t)argument;
    void *objects[OBJECTS];

    while (!ended)
        burst(&state, objects, OBJECTS);
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t threads[NORMAL];
    struct sched_param first = {.sched_priority = 1};
    struct timespec pause = {0, PAUSE_US * 1000};
    double longest[2] = {0, 0}, sum[2] = {0, 0}, median;
    static double cpu_times[BURSTS];
    uint64_t state = 1;
    void *objects[OBJECTS];
    cpu_set_t here;
    int cpu = sched_getcpu();

    /* Threads inherit both. */
    CPU_ZERO(&here);
    CPU_SET(cpu < 0 ? 0 : cpu, &here);
    (void)sched_setaffinity(0, sizeof here, &here);
    for (uintptr_t i = 0; i < NORMAL; i++)
        if (pthread_create(&threads[i], NULL, be_normal, (void *)i))
            abort();
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &first))
        dprintf(1, "no priority here: all threads are normal\n");
    for (int i = 0; i < BURSTS; i++) {
        double cpu_s = seconds(CLOCK_THREAD_CPUTIME_ID), wall_s = seconds(CLOCK_MONOTONIC);

        burst(&state, objects, 24);
        double took[2] = {seconds(CLOCK_THREAD_CPUTIME_ID) - cpu_s,
                          seconds(CLOCK_MONOTONIC) - wall_s};
        for (int k = 0; k < 2; k++) {
            sum[k] += took[k];
            longest[k] = took[k] > longest[k] ? took[k] : longest[k];
        }
        cpu_times[i] = took[0];
        nanosleep(&pause, NULL);
    }
    ended = 1;
    for (int i = 0; i < NORMAL; i++)
        pthread_join(threads[i], NULL);
    qsort(cpu_times, BURSTS, sizeof *cpu_times, by_value);
    median = cpu_times[BURSTS / 2];
    CHECK(longest[0] < MOST_MEDIANS * median, "a burst took %.0f us of CPU time, the median %.0f",
          longest[0] * 1e6, median * 1e6);
    if (count > 1)
        dprintf(1, "%s %.0f %.0f %.0f %.0f\n", arguments[1], longest[0] * 1e6, longest[1] * 1e6,
                sum[0] * 1e6, sum[1] * 1e6);
    return finish("fifo");
}
