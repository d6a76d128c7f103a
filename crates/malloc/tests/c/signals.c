/*
 * A handler that allocates and frees, and that interrupts malloc and free at
 * any instruction. The C library's malloc does not allow this.
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { SLOTS = 32, MILLISECONDS = 400 };

struct slot {
    void *p;
    size_t size;
    uint64_t seed;
};

/* Of the handler: one set for each thread, in static thread storage. */
static __thread struct slot taken[SLOTS];
static __thread uint64_t handler_random;
static __thread unsigned nr_handled;
static __thread timer_t timer;
/* An odd time, so that a signal meets every instruction sooner or later. Each handler asks for the
 * next signal as it ends: were they periodic, a handler that takes longer would leave the load no
 * time. */
static const struct itimerspec soon = { .it_value = { 0, 53000 } };

static size_t random_size(uint64_t r)
{
    if (r % 400 == 0)
        return (r >> 20) % (3 << 20);
    return r % 20 == 0 ? (r >> 20) % 100000 : (r >> 20) % 1100;
}

static void step(struct slot *slot, uint64_t r, const char *who)
{
    slot += (r >> 8) % SLOTS;
    if (slot->p) {
        CHECK(intact(slot->p, slot->size, slot->seed), "%s: block of %zu", who, slot->size);
        free(slot->p);
        slot->p = NULL;
        return;
    }
    slot->size = random_size(r >> 3);
    slot->seed = r;
    slot->p = r % 16 == 1 ? calloc(1, slot->size) : malloc(slot->size);
    CHECK(slot->p, "%s: no memory for %zu", who, slot->size);
    if (!slot->p)
        return;
    if (r % 16 == 1)
        CHECK(all_zero(slot->p, slot->size), "%s: calloc of %zu", who, slot->size);
    fill(slot->p, slot->size, r);
}

static void drop(struct slot *slots)
{
    int n;

    for (n = 0; n < SLOTS; n++) {
        free(slots[n].p);
        slots[n].p = NULL;
    }
}

static void handler(int number)
{
    int saved = errno, n;

    (void)number;
    nr_handled++;
    for (n = 0; n < 6; n++)
        step(taken, next_random(&handler_random), "handler");
    timer_settime(timer, 0, &soon, NULL);
    errno = saved;
}

static long long now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* A load, interrupted by a timer of this thread's own. */
static void *interrupted(void *arg)
{
    struct slot slots[SLOTS] = { 0 };
    uint64_t random = (uintptr_t)arg * 31337 + 11;
    struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN };
    long long begun = now_ns(), lasts = MILLISECONDS * 1000000ll * slower(), elapsed;
    sigset_t set;
    int n;

    handler_random = (uintptr_t)arg * 7919 + 5;
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &soon, NULL)) {
        perror("timer");
        exit(2);
    }
    /* Longer where others have the CPU. */
    while ((elapsed = now_ns() - begun) < lasts || (nr_handled <= 100 && elapsed < 20 * lasts)) {
        for (n = 0; n < 200; n++) {
            /* Bare pairs too: the shortest way through malloc and free. */
            free(opaque(malloc(next_random(&random) % 200)));
            step(slots, random, "load");
        }
    }
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    timer_delete(timer);
    CHECK(nr_handled > 100, "only %u signals came", nr_handled);
    drop(taken);
    drop(slots);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    return NULL;
}

int main(void)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    pthread_t thread[4];
    int n;

    sigaction(SIGRTMIN, &action, NULL);
    interrupted((void *)1);
    verify_yard("after one thread");
    for (n = 0; n < 4; n++)
        if (pthread_create(&thread[n], NULL, interrupted, (void *)(uintptr_t)(n + 2)))
            exit(2);
    for (n = 0; n < 4; n++)
        pthread_join(thread[n], NULL);
    return finish("signals");
}
