/*
 * Where the pages of real memory nodes lie. Each of two threads, bound to a CPU of a node of
 * its own, allocates objects that the other one touches first: without binding, a page lies on
 * the node of who touched it. Prints, for each thread, how many pages lie on each node.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OBJECTS = 20000, SIZE = 1000, PAGE = 4096 };

static void *objects[2][OBJECTS];
static pthread_barrier_t all_there;

static void die(const char *what)
{
    perror(what);
    exit(2);
}

static void *work(void *arg)
{
    int nth = (int)(intptr_t)arg, n;
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    CPU_SET(nth, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus))
        die("sched_setaffinity");
    for (n = 0; n < OBJECTS; n++)
        if (!(objects[nth][n] = malloc(SIZE)))
            die("malloc");
    pthread_barrier_wait(&all_there);
    for (n = 0; n < OBJECTS; n++)
        *(volatile char *)objects[1 - nth][n] = 1;
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    int nth, n;

    pthread_barrier_init(&all_there, NULL, 2);
    for (nth = 0; nth < 2; nth++)
        if (pthread_create(&threads[nth], NULL, work, (void *)(intptr_t)nth))
            die("pthread_create");
    for (nth = 0; nth < 2; nth++)
        pthread_join(threads[nth], NULL);
    for (nth = 0; nth < 2; nth++) {
        long on[3] = {0, 0, 0};

        for (n = 0; n < OBJECTS; n++) {
            void *page = (void *)((uintptr_t)objects[nth][n] & ~(uintptr_t)(PAGE - 1));
            int node = -1;

            /* Without nodes to move to it tells where each page is. */
            if (syscall(SYS_move_pages, 0, 1UL, &page, NULL, &node, 0))
                die("move_pages");
            on[node < 0 || node > 1 ? 2 : node]++;
        }
        printf("allocated on CPU %d: %ld objects on node 0, %ld on node 1, %ld elsewhere\n", nth,
               on[0], on[1], on[2]);
    }
    return 0;
}
