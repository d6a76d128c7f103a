/*
 * The owner-token stress on malloc and free: 64 threads, of which every other
 * one ends now and then, hand objects to each other. Each object carries its
 * owner's token in its first and its last whole word; free memory never does,
 * because both words are overwritten before each free.
 *
 *   stress CALLS [quiet|other]
 *
 * With `quiet` no signals are sent: for private slots, where a handler must not
 * allocate. With `other` as well, and the malloc may be another one. Ends with 0, or with 19 at the first error, or with 20 if nothing
 * goes on for a minute.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    THREADS = 64, PART = 4096, CHURN_PARTS = 4, KEPT = 192, PLACES = 128,
    FOUND = 19, HUNG = 20, PATIENCE_S = 60,
};

#define TAG (0xffull << 56)
#define LIVE (0xa5ull << 56)
#define FREE (0x5aull << 56)

struct held {
    void *object;
    size_t bytes;
    uint64_t token;
};

struct worker {
    uint64_t owner, sequence, random;
    size_t nr_kept;
    struct held kept[KEPT];
};

static uint64_t nr_wanted, nr_begun, nr_done, handler_sequence;
static int over;
static pid_t thread_ids[THREADS];
static struct {
    char locked;
    struct held held;
} places[PLACES];
static __thread struct held stash;
static __thread int left;

static void wrong(const char *what, const void *at, uint64_t found, uint64_t expected)
{
    char text[200];
    int n = snprintf(text, sizeof text, "error: %s at %p: found %#018llx, expected %#018llx\n",
                     what, at, (unsigned long long)found, (unsigned long long)expected);

    _exit(write(2, text, (size_t)n) < 0 ? FOUND + 2 : FOUND);
}

static uint64_t below(uint64_t *random, uint64_t n)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return (*random >> 16) % n;
}

/* Over all classes, small ones more often, with runs and a few mappings. */
static size_t some_bytes(uint64_t *random)
{
    uint64_t n = below(random, 4096);
    size_t most = n == 0 ? 2097151 : n < 16 ? 524288 : n < 100 ? 65536 : n < 500 ? 18720
                : n < 1200 ? 4096 : n < 2500 ? 1024 : 256;

    return 1 + below(random, most);
}

static uint64_t load(uint64_t *word) { return __atomic_load_n(word, __ATOMIC_RELAXED); }
static void store(uint64_t *word, uint64_t to) { __atomic_store_n(word, to, __ATOMIC_RELAXED); }

static uint64_t *first(void *object) { return object; }
static uint64_t *last(void *object, size_t bytes)
{
    return (uint64_t *)object + (bytes < 8 ? 0 : bytes / 8 - 1);
}

static struct held sign(void *object, size_t bytes, uint64_t owner, uint64_t sequence)
{
    struct held held = { object, bytes, 0 };

    held.token = LIVE | owner << 46 | (sequence & 0x1ffffff) << 21 | bytes;
    store(first(object), held.token);
    store(last(object, bytes), held.token);
    return held;
}

static void check(const struct held *held)
{
    uint64_t a = load(first(held->object)), b = load(last(held->object, held->bytes));

    if (a != held->token || b != held->token)
        wrong("the owner's token is gone", held->object, a != held->token ? a : b, held->token);
}

/* Takes the token away: what the object holds from now on is nobody's. */
static void unsign(const struct held *held)
{
    check(held);
    store(first(held->object), (held->token & ~TAG) | FREE);
    store(last(held->object, held->bytes), (held->token & ~TAG) | FREE);
}

static void check_fresh(void *object, size_t bytes)
{
    if (!object)
        wrong("no memory", NULL, bytes, 0);
    if ((uintptr_t)object % 16)
        wrong("the address is not aligned", object, (uintptr_t)object, 16);
    if ((load(first(object)) & TAG) == LIVE)
        wrong("a live object was handed out again", object, load(first(object)), 0);
    if ((load(last(object, bytes)) & TAG) == LIVE)
        wrong("a live object was handed out again", last(object, bytes),
              load(last(object, bytes)), 0);
}

static void give(struct held held)
{
    unsign(&held);
    free(held.object);
}

static struct held take(struct worker *w, size_t bytes)
{
    void *object = NULL;

    switch (below(&w->random, 32)) {
    case 0:
        if (posix_memalign(&object, 16u << below(&w->random, 9), bytes))
            object = NULL;
        break;
    case 1:
        object = calloc(1, bytes);
        if (object && bytes >= 8 && (load(first(object)) || load(last(object, bytes))))
            wrong("calloc's object is not zero", object, load(first(object)), 0);
        break;
    default:
        object = malloc(bytes);
    }
    check_fresh(object, bytes);
    return sign(object, bytes, w->owner, ++w->sequence);
}

/* The contents must come along; the token stands for them in the middle. */
static struct held resize(struct worker *w, struct held held)
{
    size_t bytes = some_bytes(&w->random), both = bytes < held.bytes ? bytes : held.bytes;
    uint64_t *middle = both >= 32 ? first(held.object) + both / 16 : NULL;
    uint64_t mark = (held.token & ~TAG) | FREE;

    unsign(&held);
    if (middle)
        store(middle, mark);
    held.object = realloc(held.object, bytes);
    check_fresh(held.object, bytes);
    if (middle && load(first(held.object) + both / 16) != mark)
        wrong("realloc lost the contents", held.object, load(first(held.object) + both / 16), mark);
    return sign(held.object, bytes, w->owner, ++w->sequence);
}

static void mixed(struct worker *w)
{
    for (int i = 0; i < PART; i++) {
        size_t at = w->nr_kept ? below(&w->random, w->nr_kept) : 0;

        if (w->nr_kept < KEPT && (!w->nr_kept || below(&w->random, 2))) {
            w->kept[w->nr_kept++] = take(w, some_bytes(&w->random));
        } else if (!below(&w->random, 8)) {
            w->kept[at] = resize(w, w->kept[at]);
        } else {
            give(w->kept[at]);
            w->kept[at] = w->kept[--w->nr_kept];
        }
    }
}

static void bursts(struct worker *w)
{
    struct held some[256];

    for (size_t done = 0, n; done < PART / 2; done += n) {
        size_t bytes = 1 + some_bytes(&w->random) % 16384;

        n = 524288 / bytes > 256 ? 256 : 524288 / bytes;
        for (size_t i = 0; i < n; i++)
            some[i] = take(w, bytes);
        /* Any order: the next one to go changes places with the last. */
        for (size_t i = n; i > 0; i--) {
            size_t j = below(&w->random, i);

            give(some[j]);
            some[j] = some[i - 1];
        }
    }
}

static void pairs(struct worker *w)
{
    size_t bytes = 1 + some_bytes(&w->random) % 16384;

    for (int i = 0; i < PART / 2; i++)
        give(take(w, bytes));
}

/* From hand to hand: what lay there is freed here. Nobody waits. */
static void trade(struct worker *w)
{
    for (int i = 0; i < PART / 2; i++) {
        struct held mine = take(w, some_bytes(&w->random)), old = mine;
        size_t at = below(&w->random, PLACES);

        if (!__atomic_test_and_set(&places[at].locked, __ATOMIC_ACQUIRE)) {
            old = places[at].held;
            places[at].held = mine;
            __atomic_clear(&places[at].locked, __ATOMIC_RELEASE);
        }
        if (old.object)
            give(old);
    }
}

static void on_signal(int signal)
{
    uint64_t n = __atomic_add_fetch(&handler_sequence, 1, __ATOMIC_RELAXED), random;
    int old_errno = errno;
    size_t bytes;
    void *object;

    (void)signal;
    if (left)
        return;
    random = n * 0x9e3779b97f4a7c15u | 1;
    bytes = some_bytes(&random);
    object = malloc(bytes);
    check_fresh(object, bytes);
    if (stash.object)
        give(stash);
    stash = sign(object, bytes, 512 + n % 256, n);
    errno = old_errno;
}

static void leave(void)
{
    left = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (stash.object)
        give(stash);
}

struct job {
    int number;
    uint64_t generation;
};

static void *work(void *argument)
{
    struct job *job = argument;
    struct worker w = { .owner = (uint64_t)job->number, .sequence = job->generation << 16 };
    uint64_t before;

    w.random = ((uint64_t)job->number + 1) * 0x9e3779b97f4a7c15u ^ job->generation << 7;
    w.random |= 1;
    __atomic_store_n(&thread_ids[job->number], gettid(), __ATOMIC_RELAXED);
    for (int part = 0; job->number % 2 == 0 || part < CHURN_PARTS; part++) {
        if (__atomic_fetch_add(&nr_begun, PART, __ATOMIC_RELAXED) >= nr_wanted)
            break;
        before = w.sequence;
        switch (below(&w.random, 4)) {
        case 0: mixed(&w); break;
        case 1: bursts(&w); break;
        case 2: pairs(&w); break;
        default: trade(&w);
        }
        __atomic_fetch_add(&nr_done, 2 * (w.sequence - before), __ATOMIC_RELAXED);
    }
    while (w.nr_kept)
        give(w.kept[--w.nr_kept]);
    __atomic_store_n(&thread_ids[job->number], 0, __ATOMIC_RELAXED);
    leave();
    return NULL;
}

static void *keep_working(void *argument)
{
    struct job job = { (int)(intptr_t)argument, 0 };
    pthread_t thread;

    for (; load(&nr_begun) < nr_wanted; job.generation++) {
        if (pthread_create(&thread, NULL, work, &job))
            wrong("no thread", NULL, 0, 0);
        pthread_join(thread, NULL);
    }
    return NULL;
}

static int running(void) { return !__atomic_load_n(&over, __ATOMIC_RELAXED); }

static void *interrupt(void *unused)
{
    uint64_t random = 0x12345677;

    while (running()) {
        pid_t thread = __atomic_load_n(&thread_ids[below(&random, THREADS)], __ATOMIC_RELAXED);

        if (thread)
            syscall(SYS_tgkill, getpid(), thread, SIGUSR1);
        usleep(300);
    }
    return unused;
}

static void verify(const char *when)
{
    int (*verify_yard)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "slabyard_verify");

    if (verify_yard && verify_yard())
        wrong(when, NULL, 1, 0);
}

static void *trim(void *unused)
{
    for (int round = 1; running(); round++) {
        usleep(40000);
        if (round % 4 == 0)
            verify("the yard is not sound under load");
        else if (round % 4 == 2)
            malloc_trim(0);
    }
    return unused;
}

/* Tells of progress on a terminal; ends a run that hangs. */
static void *watch(void *unused)
{
    uint64_t seen = 0;
    int still = 0;

    for (int tick = 1; running(); tick++) {
        usleep(20000);
        still = load(&nr_done) == seen ? still + 1 : 0;
        seen = load(&nr_done);
        if (still > PATIENCE_S * 50) {
            fprintf(stderr, "no progress after %llu calls\n", (unsigned long long)seen);
            _exit(HUNG);
        }
        if (tick % 50 == 0 && isatty(2))
            fprintf(stderr, "\rmalloc: %llu of %llu million calls ",
                    (unsigned long long)seen / 1000000, (unsigned long long)nr_wanted / 1000000);
    }
    if (isatty(2))
        fprintf(stderr, "\r\033[K");
    return unused;
}

int main(int argc, char **argv)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    void *(*aside[])(void *) = { watch, trim, interrupt };
    const char *how = argc > 2 ? argv[2] : "";
    int nr_aside = *how ? 2 : 3;
    pthread_t workers[THREADS], others[3];

    nr_wanted = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    if (strcmp(how, "other") && !dlsym(RTLD_DEFAULT, "slabyard_verify"))
        wrong("the library is not loaded", NULL, 0, 0);
    sigaction(SIGUSR1, &action, NULL);
    for (intptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&workers[i], NULL, keep_working, (void *)i))
            wrong("no thread", NULL, 0, 0);
    for (int i = 0; i < nr_aside; i++)
        if (pthread_create(&others[i], NULL, aside[i], NULL))
            wrong("no thread", NULL, 0, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i], NULL);
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < nr_aside; i++)
        pthread_join(others[i], NULL);
    for (int i = 0; i < PLACES; i++)
        if (places[i].held.object)
            give(places[i].held);
    verify("the yard is not sound at the end");
    return 0;
}
