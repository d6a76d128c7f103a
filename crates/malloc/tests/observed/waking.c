/*
 * Threads that sleep and wake each other all the time, in each way that a thread can wait, while
 * another process has them serve requests: no wake-up is lost, and no call ends with EINTR that no
 * signal of the program's own ended. Ends at a line on the standard input.
 */
#include "../c/check.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <time.h>

enum { HANGS_S = 170, KINDS = 6 };

static volatile int is_over;
static unsigned long turns[KINDS + 1];

/* Two threads that wait for each other. */
static struct pair {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int turn;
    int pipes[2][2];
    int kind;
} pairs[KINDS];

static void rest(void)
{
    struct timespec time = { 0, 2000000 };

    CHECK(nanosleep(&time, NULL) == 0, "nanosleep: error %d", errno);
}

/* Waits until the other one has given the turn; 0: it will not. */
static int wait_for_turn(struct pair *pair, int side)
{
    struct pollfd readable = { .fd = pair->pipes[side][0], .events = POLLIN };
    struct epoll_event event = { .events = EPOLLIN };
    static __thread int epoll;
    int result = 1;
    char byte = 0;

    switch (pair->kind) {
    case 0:
        pthread_mutex_lock(&pair->lock);
        while (pair->turn != side)
            pthread_cond_wait(&pair->changed, &pair->lock);
        pthread_mutex_unlock(&pair->lock);
        return !is_over;
    case 2:
        result = poll(&readable, 1, 20000);
        break;
    case 3:
        result = ppoll(&readable, 1, NULL, NULL);
        break;
    case 4:
    case 5:
        if (!epoll) {
            epoll = epoll_create1(0);
            epoll_ctl(epoll, EPOLL_CTL_ADD, pair->pipes[side][0], &event);
        }
        result = epoll_wait(epoll, &event, 1, pair->kind == 4 ? -1 : 20000);
        break;
    }
    CHECK(result == 1, "kind %d waits: %d, error %d", pair->kind, result, errno);
    result = (int)read(pair->pipes[side][0], &byte, 1);
    CHECK(result == 1 && byte == 'x', "kind %d reads: %d, error %d", pair->kind, result, errno);
    return !is_over && result == 1;
}

static void give_turn(struct pair *pair, int side)
{
    ssize_t n;

    if (pair->kind == 0) {
        pthread_mutex_lock(&pair->lock);
        pair->turn = !side;
        pthread_cond_signal(&pair->changed);
        pthread_mutex_unlock(&pair->lock);
        return;
    }
    n = write(pair->pipes[!side][1], "x", 1);
    CHECK(n == 1, "writes: %zd, error %d", n, errno);
}

/* Has objects of its own, which it looks at after each wait. */
static void work(struct pair *pair, int side)
{
    unsigned char *objects[20] = { 0 };
    uint64_t state = 88172645463325252u + (uintptr_t)pair + side;
    size_t n, size;

    while (wait_for_turn(pair, side)) {
        for (n = 0; n < 20; n++) {
            if (objects[n])
                CHECK(objects[n][0] == n && objects[n][15] == n, "an object of kind %d", pair->kind);
            free(objects[n]);
            size = 16 + next_random(&state) % 3000;
            objects[n] = malloc(size);
            memset(objects[n], (int)n, size);
        }
        __atomic_add_fetch(&turns[pair->kind], 1, __ATOMIC_RELAXED);
        rest();
        give_turn(pair, side);
    }
    give_turn(pair, side);
}

static void *first(void *pair)
{
    work(pair, 0);
    return NULL;
}

static void *second(void *pair)
{
    work(pair, 1);
    return NULL;
}

int main(void)
{
    pthread_t threads[KINDS][2];
    char line[8];
    int n;

    alarm(HANGS_S * slower());
    for (n = 0; n < KINDS; n++) {
        pairs[n].kind = n;
        pthread_mutex_init(&pairs[n].lock, NULL);
        pthread_cond_init(&pairs[n].changed, NULL);
        if (pipe(pairs[n].pipes[0]) || pipe(pairs[n].pipes[1]))
            abort();
        pthread_create(&threads[n][0], NULL, first, &pairs[n]);
        pthread_create(&threads[n][1], NULL, second, &pairs[n]);
        if (n)
            give_turn(&pairs[n], 1);
    }
    if (write(1, "ready\n", 6) != 6)
        abort();
    CHECK(read(0, line, 1) == 1, "read: error %d", errno);
    is_over = 1;
    for (n = 0; n < KINDS; n++) {
        pthread_join(threads[n][0], NULL);
        pthread_join(threads[n][1], NULL);
        CHECK(turns[n] > 10, "%lu turns of kind %d", turns[n], n);
    }
    if (nr_failed == 0 && write(1, "done\n", 5) != 5)
        abort();
    return finish("waking");
}
