/*
 * fork with handlers of the program (pthread_atfork) that need other threads, or
 * memory, while other threads allocate:
 *
 *   handlers WHAT earlier|main [forks=60]
 *
 * WHAT the handlers do: lock (take a lock under which threads allocate), allocate,
 * join (let a thread end that allocates, and start it anew afterwards, as numeric
 * libraries do with theirs), stream (lock standard output). `earlier`: they were
 * registered by a library's constructor before ours, `main`: by the program.
 */
#include "attack.h"

enum { THREADS = 3, KEPT = 16 };

extern void (*earlier_at_fork[3])(void);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int over, pool_is_over;
static pthread_t pool;
static void *from_prepare;
static long nr_rounds[THREADS];

/* What a thread does: blocks of sizes that take slow paths, checked. */
static void some_blocks(uint64_t *random)
{
    void *p[KEPT];
    size_t size[KEPT];
    uint64_t seed = next_random(random);
    int n;

    for (n = 0; n < KEPT; n++) {
        size[n] = n % 4 == 0 ? 100 * 1024 : n % 4 == 1 ? 300 * 1024 : 50 + (seed >> 8) % 9000;
        p[n] = opaque(malloc(size[n]));
        CHECK(p[n], "no memory for %zu bytes", size[n]);
        fill(p[n], size[n] < 5000 ? size[n] : 5000, seed + (unsigned)n);
    }
    for (n = 0; n < KEPT; n++) {
        CHECK(intact(p[n], size[n] < 5000 ? size[n] : 5000, seed + (unsigned)n),
              "%zu bytes at %p are another's", size[n], p[n]);
        free(p[n]);
    }
    if (seed % 16 == 0)
        malloc_trim(0);
}

static void *work(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument + 77;

    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        pthread_mutex_lock(&lock);
        some_blocks(&random);
        pthread_mutex_unlock(&lock);
        some_blocks(&random);
        flockfile(stdout);
        some_blocks(&random);
        funlockfile(stdout);
        __atomic_add_fetch(&nr_rounds[(uintptr_t)argument], 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void *of_pool(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument | 4711;

    do
        some_blocks(&random);
    while (!__atomic_load_n(&pool_is_over, __ATOMIC_RELAXED));
    some_blocks(&random);
    return NULL;
}

static void start_pool(void)
{
    __atomic_store_n(&pool_is_over, 0, __ATOMIC_RELAXED);
    if (pthread_create(&pool, NULL, of_pool, NULL))
        not_possible("a thread");
}

static void end_pool(void)
{
    __atomic_store_n(&pool_is_over, 1, __ATOMIC_RELAXED);
    pthread_join(pool, NULL);
}

/* A thread's whole life, within a handler. */
static void restart_pool(void)
{
    start_pool();
    end_pool();
    start_pool();
}

static void take_lock(void) { pthread_mutex_lock(&lock); }
static void give_lock(void) { pthread_mutex_unlock(&lock); }
static void take_stream(void) { flockfile(stdout); }
static void give_stream(void) { funlockfile(stdout); }

static void allocate(void)
{
    static uint64_t random = 99;

    some_blocks(&random);
    from_prepare = opaque(malloc(200000));
}

static void release(void)
{
    static uint64_t random = 98;

    free(from_prepare);
    some_blocks(&random);
    malloc_trim(0);
}

static const struct {
    const char *name;
    void (*prepare)(void), (*after)(void);
} kinds[] = {
    { "lock", take_lock, give_lock },
    { "stream", take_stream, give_stream },
    { "allocate", allocate, release },
    { "join", end_pool, restart_pool },
};

static void live(void)
{
    uint64_t random = 5;
    int n;

    alarm(50);
    for (n = 0; n < 3; n++)
        some_blocks(&random);
    malloc_trim(0);
}

int main(int argc, char **argv)
{
    long forks = number_of(argv, "forks", 60), i, before;
    pthread_t threads[THREADS];
    size_t kind, n;

    for (kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        if (argc > 2 && strcmp(argv[1], kinds[kind].name) == 0)
            break;
    if (kind == sizeof kinds / sizeof *kinds)
        usage("handlers lock|stream|allocate|join earlier|main [forks=N]");
    if (has_word(argv, "earlier")) {
        earlier_at_fork[0] = kinds[kind].prepare;
        earlier_at_fork[1] = earlier_at_fork[2] = kinds[kind].after;
    } else {
        pthread_atfork(kinds[kind].prepare, kinds[kind].after, kinds[kind].after);
    }
    start_pool();
    for (n = 0; n < THREADS; n++)
        if (pthread_create(&threads[n], NULL, work, (void *)(uintptr_t)n))
            not_possible("a thread");
    for (i = 0; i < forks && !nr_failed; i++) {
        pid_t pid;

        /* The threads are to run between two forks. */
        before = __atomic_load_n(&nr_rounds[i % THREADS], __ATOMIC_RELAXED);
        while (__atomic_load_n(&nr_rounds[i % THREADS], __ATOMIC_RELAXED) == before)
            usleep(50);
        pid = fork();
        if (pid == 0)
            child(live, i % 10 == 0);
        expect_good_end(pid, "a child");
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    end_pool();
    return finish("handlers");
}
