/*
 * Threads: memory that another thread frees, threads that end while their
 * memory lives on, many short threads, and frees at the very end of a thread.
 */
#include "check.h"
#include <malloc.h>
#include <pthread.h>

static void start(pthread_t *thread, void *(*body)(void *), void *arg)
{
    int error = pthread_create(thread, NULL, body, arg);

    if (error) {
        fprintf(stderr, "pthread_create: %s\n", strerror(error));
        exit(2);
    }
}

/* A block knows its size and seed, so that whoever frees it can check it. */
struct block {
    struct block *next;
    size_t size;
    uint64_t seed;
};

static struct block *new_block(size_t size, uint64_t seed)
{
    struct block *b = malloc(sizeof *b + size);

    if (!b)
        abort();
    b->size = size;
    b->seed = seed;
    fill(b + 1, size, seed);
    return b;
}

static void free_block(struct block *b)
{
    CHECK(intact(b + 1, b->size, b->seed), "block of %zu", b->size);
    free(b);
}

static size_t random_size(uint64_t r)
{
    if (r % 1000 == 0)
        return (r >> 20) % (2 << 20);
    return r % 50 == 0 ? (r >> 20) % 40000 : (r >> 20) % 900;
}

/* --- producers make, consumers free; the producers end first ------------- */

enum { PAIRS = 4, MADE = 20000 };

static struct queue {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct block *first;
    int done;
} queues[PAIRS];

static void *produce(void *arg)
{
    struct queue *q = arg;
    uint64_t random = (uintptr_t)arg | 1;
    int n;

    for (n = 0; n < MADE; n++) {
        struct block *b = new_block(random_size(next_random(&random)), random);

        pthread_mutex_lock(&q->lock);
        b->next = q->first;
        q->first = b;
        if (n % 64 == 0)
            pthread_cond_signal(&q->more);
        pthread_mutex_unlock(&q->lock);
    }
    pthread_mutex_lock(&q->lock);
    q->done = 1;
    pthread_cond_signal(&q->more);
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

static void *consume(void *arg)
{
    struct queue *q = arg;
    uintptr_t nr = 0;
    int done;

    do {
        struct block *b;

        pthread_mutex_lock(&q->lock);
        while (!q->first && !q->done)
            pthread_cond_wait(&q->more, &q->lock);
        b = q->first;
        q->first = NULL;
        done = q->done;
        pthread_mutex_unlock(&q->lock);
        while (b) {
            struct block *next = b->next;

            /* Two blocks in one place may follow each other for ever. */
            CHECK(nr < MADE, "the queue is not intact: more than %d blocks", MADE);
            free_block(b);
            b = next;
            nr++;
        }
    } while (!done);
    return (void *)nr;
}

static void producers_and_consumers(void)
{
    pthread_t producer[PAIRS], consumer[PAIRS];
    void *nr;
    int n;

    for (n = 0; n < PAIRS; n++) {
        pthread_mutex_init(&queues[n].lock, NULL);
        pthread_cond_init(&queues[n].more, NULL);
        start(&producer[n], produce, &queues[n]);
        start(&consumer[n], consume, &queues[n]);
    }
    for (n = 0; n < PAIRS; n++) {
        pthread_join(producer[n], NULL);
        pthread_join(consumer[n], &nr);
        CHECK((uintptr_t)nr == MADE, "%zu of %d arrived", (size_t)nr, MADE);
    }
}

/* --- 64 threads exchange blocks through shared slots --------------------- */

enum { MANY = 64, EXCHANGED = 256 };

static struct block *exchanged[EXCHANGED];

static void *exchange(void *arg)
{
    uint64_t random = (uintptr_t)arg * 77777 + 1;
    int n;

    for (n = 0; n < 3000; n++) {
        uint64_t r = next_random(&random);
        struct block *b = new_block(random_size(r >> 10), r);

        b = __atomic_exchange_n(&exchanged[r % EXCHANGED], b, __ATOMIC_ACQ_REL);
        if (b)
            free_block(b);
    }
    return NULL;
}

static void many_threads(void)
{
    pthread_t thread[MANY];
    int n;

    for (n = 0; n < MANY; n++)
        start(&thread[n], exchange, (void *)(uintptr_t)(n + 1));
    for (n = 0; n < MANY; n++)
        pthread_join(thread[n], NULL);
    for (n = 0; n < EXCHANGED; n++)
        if (exchanged[n])
            free_block(exchanged[n]);
}

/* --- late frees: key destructors and C++ thread exit --------------------- */

extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);
extern void *__dso_handle;

static pthread_key_t key;
static int nr_late, nr_cxx;

/* Comes again with a new value, as often as the system allows at least once. */
static void late(void *value)
{
    struct block *b = value, *again;

    __atomic_add_fetch(&nr_late, 1, __ATOMIC_RELAXED);
    if (b->seed % 4 != 3) {
        again = new_block(b->size + 33, b->seed + 1);
        pthread_setspecific(key, again);
    }
    free_block(b);
    free(malloc(50000));
}

static void late_cxx(void *value)
{
    struct block *b = new_block(300, 9);

    __atomic_add_fetch(&nr_cxx, 1, __ATOMIC_RELAXED);
    free_block(value);
    free_block(b);
}

static void *end_late(void *arg)
{
    struct block *b = new_block(100, 0);

    (void)arg;
    pthread_setspecific(key, new_block(200, 0));
    __cxa_thread_atexit_impl(late_cxx, b, &__dso_handle);
    free(malloc(64));
    return NULL;
}

static void *short_life(void *arg)
{
    struct block **to = arg;
    void *p[20];
    int n;

    for (n = 0; n < 20; n++)
        p[n] = malloc(16u << (n % 8));
    for (n = 0; n < 20; n++)
        free(p[n]);
    *to = new_block(500, (uintptr_t)to);
    return end_late(NULL);
}

/* Each thread leaves one block behind; memory must not grow with threads. */
static void churn(void)
{
    enum { THREADS = 2000, TOGETHER = 8 };
    struct block *left[TOGETHER];
    pthread_t thread[TOGETHER];
    long before = 0, after;
    int n, i;

    for (n = 0; n < THREADS; n += TOGETHER) {
        if (n == THREADS / 5)
            before = resident_kib();
        for (i = 0; i < TOGETHER; i++)
            start(&thread[i], short_life, &left[i]);
        for (i = 0; i < TOGETHER; i++) {
            pthread_join(thread[i], NULL);
            free_block(left[i]);
        }
    }
    after = resident_kib();
    CHECK(after - before < 4 << 10, "1600 threads left %ld KiB behind", after - before);
    CHECK(nr_late == THREADS * 4, "%d late calls", nr_late);
    CHECK(nr_cxx == THREADS, "%d C++ exits", nr_cxx);
}

/* --- a thread that is cancelled, and one that is detached ---------------- */

static void clean(void *p)
{
    free_block(p);
}

static void *wait_for_cancel(void *arg)
{
    struct block *b = new_block(1000, 5);

    (void)arg;
    pthread_cleanup_push(clean, b);
    for (;;)
        usleep(1000);
    pthread_cleanup_pop(1);
    return NULL;
}

static void *count_down(void *arg)
{
    free(malloc(777));
    __atomic_sub_fetch((int *)arg, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void cancelled_and_detached(void)
{
    pthread_t thread[16];
    static int left = 16;
    int n;

    for (n = 0; n < 16; n++)
        start(&thread[n], wait_for_cancel, NULL);
    for (n = 0; n < 16; n++) {
        pthread_cancel(thread[n]);
        pthread_join(thread[n], NULL);
    }
    for (n = 0; n < 16; n++) {
        start(&thread[n], count_down, &left);
        pthread_detach(thread[n]);
    }
    for (n = 0; n < 10000 && __atomic_load_n(&left, __ATOMIC_ACQUIRE); n++)
        usleep(1000);
    CHECK(left == 0, "%d detached threads did not run", left);
}

int main(void)
{
    pthread_key_create(&key, late);
    producers_and_consumers();
    many_threads();
    churn();
    cancelled_and_detached();
    return finish("threads");
}
