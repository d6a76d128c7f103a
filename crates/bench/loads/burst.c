/* A burst: COUNT objects of 16 to 256 bytes are allocated and freed, then
 * the program nearly rests: 1000 pairs a second, for one second.
 *
 *   burst COUNT one|exit|idle [CPU CPU]
 *
 * one: the main thread does it all; exit, idle: two pinned threads do half
 * each, and end or sleep afterwards.
 * It says `start`, `peak`, `rest`, each followed by waiting for a line, so
 * that its memory can be read from outside.
 *
 * The objects hold their own links, and are freed list by list from 64 lists
 * into which they were drawn at random: no table of the program's own blurs
 * what is measured.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

enum { LISTS = 64 };

struct half {
    uint64_t count, random;
    int cpu; /* or -1 */
    void *lists[LISTS];
};

static struct half halves[2];
static pthread_barrier_t step;
static int exits;

static void die(const char *what)
{
    (void)!write(2, what, strlen(what));
    _exit(3);
}

static void say_and_wait(const char *line)
{
    char c;
    if (write(1, line, strlen(line)) < 0 || read(0, &c, 1) != 1)
        _exit(3);
}

static void allocate(struct half *h)
{
    for (uint64_t i = 0; i < h->count; i++) {
        uint32_t r = next_random(&h->random);
        void **object = malloc(16 + (r >> 8) % 241);
        if (!object)
            die("burst: out of memory\n");
        *object = h->lists[r % LISTS];
        h->lists[r % LISTS] = object;
    }
}

static void release(struct half *h)
{
    for (int l = 0; l < LISTS; l++) {
        void **object = h->lists[l];
        while (object) {
            void **next = *object;
            free(object);
            object = next;
        }
        h->lists[l] = NULL;
    }
}

static void *thread(void *argument)
{
    struct half *h = argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(h->cpu, &set);
    if (h->cpu >= 0 && sched_setaffinity(0, sizeof set, &set) != 0)
        die("burst: sched_setaffinity failed\n");
    pthread_barrier_wait(&step); /* ready */
    pthread_barrier_wait(&step); /* started */
    allocate(h);
    pthread_barrier_wait(&step); /* peak */
    pthread_barrier_wait(&step); /* read */
    release(h);
    pthread_barrier_wait(&step); /* freed */
    while (!exits)
        pause();
    return NULL;
}

static void nearly_rest(void)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        free(malloc(64));
        usleep(1000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000 +
                 (now.tv_nsec - start.tv_nsec) / 1000000 < 1000);
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    if (argc < 3)
        die("usage: burst COUNT one|exit|idle [CPU CPU]\n");
    uint64_t count = strtoull(argv[1], NULL, 10);
    int nr_threads = strcmp(argv[2], "one") == 0 ? 0 : 2;
    exits = strcmp(argv[2], "exit") == 0;
    free(malloc(64)); /* the allocator's own start is not the burst's */

    for (int i = 0; i < 2; i++) {
        halves[i].count = nr_threads ? count / 2 : count;
        halves[i].random = 0x9e3779b97f4a7c15ull + (uint64_t)i;
        halves[i].cpu = argc >= 5 ? atoi(argv[3 + i]) : -1;
    }
    pthread_barrier_init(&step, NULL, 3);
    for (int i = 0; i < nr_threads; i++)
        if (pthread_create(&threads[i], NULL, thread, &halves[i]) != 0)
            die("burst: no thread\n");

    if (nr_threads)
        pthread_barrier_wait(&step);
    say_and_wait("start\n");
    if (nr_threads) {
        pthread_barrier_wait(&step);
        pthread_barrier_wait(&step);
    } else {
        allocate(&halves[0]);
    }
    say_and_wait("peak\n");
    if (nr_threads) {
        pthread_barrier_wait(&step);
        pthread_barrier_wait(&step);
        for (int i = 0; exits && i < nr_threads; i++)
            pthread_join(threads[i], NULL);
    } else {
        release(&halves[0]);
    }
    nearly_rest();
    say_and_wait("rest\n");
    _exit(0);
}
