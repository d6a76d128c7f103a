/*
 * Memory at rest: a load of a shape frees all that it had, nearly at once, and makes no call
 * from then on. Without an argument each shape with a limit runs in a child of its own, and what is
 * resident one second later is within the limit, in one of three runs. `rest SHAPE` prints what is resident then, in
 * KiB, the milliseconds that the load took, and its page faults; `rest -` prints the shapes.
 *
 * The program's own tables are mappings that go before that second, so that the number is the
 * allocator's and the C library's.
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { MIB = 1 << 20, REST_MS = 1000, MOST = 1 << 22, HANGS_S = 100 };

static uint64_t state = 88172645463325252u;
static void **table;

static size_t between(uint64_t *s, size_t least, size_t most)
{
    return least + next_random(s) % (most - least + 1);
}

static void *filled(void *p, size_t bytes)
{
    if (!p)
        abort();
    return memset(p, 1, bytes);
}

static void *touched(size_t bytes)
{
    return filled(opaque(malloc(bytes)), bytes);
}

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        abort();
    return p;
}

static void free_in_order(size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(table[i]);
}

static void free_in_reverse(size_t n)
{
    while (n-- > 0)
        free(table[n]);
}

static void free_at_random(size_t n)
{
    for (size_t i = n; i-- > 0;) {
        size_t at = next_random(&state) % (i + 1);
        free(table[at]);
        table[at] = table[i];
    }
}

/* Six waves, each of larger objects and of more memory, 200 MB at last; returns how many. */
static size_t wave_of(size_t wave, size_t least, size_t most)
{
    size_t n = 0;

    for (size_t bytes = 0; bytes < wave * 33 * MIB; n++) {
        size_t size = between(&state, least * wave, most * wave);
        table[n] = touched(size);
        bytes += size;
    }
    return n;
}

static void waves(void)
{
    for (size_t wave = 1; wave <= 6; wave++)
        free_in_reverse(wave_of(wave, 16, 200));
}

/* The same of blocks of 1 KB to 500 KB. */
static void large_waves(void)
{
    for (size_t wave = 1; wave <= 6; wave++)
        free_in_order(wave_of(wave, 1333, 83333));
}

/* Blocks of 100 KB to 3 MB that replace each other. */
static void ring(void)
{
    enum { SLOTS = 100 };

    for (size_t i = 0; i < 2000; i++) {
        free(table[i % SLOTS]);
        table[i % SLOTS] = touched(between(&state, 100 << 10, 3 * MIB));
    }
    free_in_order(SLOTS);
}

/* One size class after the other is all that there is. */
static void phases(void)
{
    for (size_t size = 32; size <= 16384; size = size * 3 / 2) {
        size_t n = 97 * MIB / size;

        for (size_t i = 0; i < n; i++)
            table[i] = touched(size);
        free_in_order(n);
    }
}

/* Vectors that grow by half of their size each time, together. */
static void vectors(void)
{
    enum { VECTORS = 40 };
    size_t have[VECTORS] = { 0 };

    memset(table, 0, VECTORS * sizeof *table);
    for (size_t i = 0; i < VECTORS * 60; i++) {
        size_t at = next_random(&state) % VECTORS, bytes = have[at] < 64 ? 64 : have[at] * 3 / 2;

        if (bytes > 4 * MIB) {
            free(table[at]);
            table[at] = NULL, have[at] = 0;
            continue;
        }
        table[at] = realloc(table[at], bytes);
        filled((char *)table[at] + have[at], bytes - have[at]);
        have[at] = bytes;
    }
    free_in_order(VECTORS);
}

/* What producers make and consumers free. */
enum { QUEUE = 1 << 14 };

struct queue {
    void *objects[QUEUE];
    size_t in, out, all;
    uint64_t seed;
};

static void *produce(void *argument)
{
    struct queue *q = argument;

    for (size_t i = 0; i < q->all; i++) {
        while (i - __atomic_load_n(&q->out, __ATOMIC_ACQUIRE) >= QUEUE)
            sched_yield();
        q->objects[i % QUEUE] = touched(between(&q->seed, 16, i % 16 ? 1000 : 20000));
        __atomic_store_n(&q->in, i + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void *consume(void *argument)
{
    struct queue *q = argument;

    for (size_t i = 0; i < q->all; i++) {
        while (i == __atomic_load_n(&q->in, __ATOMIC_ACQUIRE))
            sched_yield();
        free(q->objects[i % QUEUE]);
        __atomic_store_n(&q->out, i + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void queues(size_t nr, size_t all)
{
    pthread_t threads[16];
    struct queue *q = map(nr * sizeof *q);

    for (size_t i = 0; i < nr; i++) {
        q[i].all = all, q[i].seed = state + i;
        if (pthread_create(&threads[2 * i], NULL, produce, &q[i]) ||
            pthread_create(&threads[2 * i + 1], NULL, consume, &q[i]))
            abort();
    }
    for (size_t i = 0; i < 2 * nr; i++)
        pthread_join(threads[i], NULL);
    munmap(q, nr * sizeof *q);
}

static void one_queue(void)
{
    queues(1, 400000);
}

static void eight_queues(void)
{
    queues(8, 60000);
}

/* Large blocks of which `realloc` cuts most, and then the rest goes. */
static void cut(void)
{
    enum { BLOCKS = 1500 };

    for (size_t i = 0; i < BLOCKS; i++) {
        size_t bytes = between(&state, 200 << 10, 1000 << 10);
        table[i] = touched(bytes);
        table[i] = realloc(table[i], bytes / between(&state, 2, 8));
    }
    free_at_random(BLOCKS);
}

/* Strings that are appended to, in a table that is emptied. */
static void strings(void)
{
    enum { STRINGS = 400000 };

    for (size_t i = 0; i < STRINGS; i++)
        table[i] = touched(between(&state, 8, 60));
    for (size_t i = 0; i < STRINGS; i++) {
        size_t at = next_random(&state) % STRINGS, bytes = between(&state, 60, 200);
        table[at] = filled(realloc(table[at], bytes), bytes);
    }
    free_at_random(STRINGS);
}

/* A tree of nodes of a few sizes: half of them go and come again. */
static void tree(void)
{
    enum { NODES = 1200000 };
    static const size_t sizes[] = { 40, 56, 72, 96, 160 };

    for (size_t i = 0; i < NODES; i++)
        table[i] = touched(sizes[next_random(&state) % 5]);
    for (size_t i = 0; i < NODES; i++) {
        size_t at = next_random(&state) % NODES;
        free(table[at]);
        table[at] = touched(sizes[next_random(&state) % 5]);
    }
    free_at_random(NODES);
}

/* A hash table that doubles, with a chain behind each bucket. */
static void hashed(void)
{
    size_t n = 0;

    for (size_t buckets = 1024; buckets <= 2 * MIB / 2; buckets *= 2) {
        void *index = calloc(buckets, sizeof(void *));

        if (!index)
            abort();
        for (; n < buckets; n++)
            table[n] = touched(between(&state, 32, 96));
        for (size_t i = 0; i < buckets; i++)
            ((void **)index)[i] = table[i];
        free(index);
    }
    free_in_order(n);
}

/* Threads one after the other: each leaves half of what it made to the next. */
static void *leave_half(void *argument)
{
    enum { OBJECTS = 40000 };
    uint64_t seed = state + (uintptr_t)argument;

    for (size_t i = 0; i < OBJECTS; i++) {
        free(table[i]);
        table[i] = touched(between(&seed, 16, 2000));
    }
    for (size_t i = 0; i < OBJECTS; i += 2) {
        free(table[i]);
        table[i] = NULL;
    }
    return NULL;
}

static void relay(void)
{
    pthread_t thread;

    for (uintptr_t i = 1; i <= 12; i++) {
        if (pthread_create(&thread, NULL, leave_half, (void *)i))
            abort();
        pthread_join(thread, NULL);
    }
    free_in_order(40000);
}

/* Aligned buffers of pages. */
static void buffers(void)
{
    enum { BUFFERS = 4000 };

    for (size_t i = 0; i < BUFFERS; i++) {
        size_t bytes = between(&state, 1, 20) << 12;
        if (posix_memalign(&table[i], (size_t)4096 << next_random(&state) % 4, bytes))
            abort();
        filled(table[i], bytes);
    }
    free_at_random(BUFFERS);
}

/* Documents: many sizes at once, each document freed in reverse when the next one is there. */
static void documents(void)
{
    enum { PIECES = 60000 };

    for (size_t document = 0; document < 12; document++) {
        void **mine = table + document % 2 * PIECES, **last = table + (document + 1) % 2 * PIECES;

        for (size_t i = 0; i < PIECES; i++)
            mine[i] = touched(next_random(&state) % 50 ? between(&state, 8, 300)
                                                : between(&state, 300, 60000));
        for (size_t i = PIECES; document > 0 && i-- > 0;)
            free(last[i]);
        if (document == 11)
            for (size_t i = PIECES; i-- > 0;)
                free(mine[i]);
    }
}

/* Objects of many sizes, freed at random: at last each slab has one of a few. */
static void mixed(void)
{
    enum { OBJECTS = 120000 };

    for (size_t i = 0; i < OBJECTS; i++)
        table[i] = touched(between(&state, 16, i % 8 ? 300 : 3000));
    free_at_random(OBJECTS);
}

/* What one thread made others free, each a part, one after the other. */
enum { HANDED = 160000, RECEIVERS = 4 };

static void *make_all(void *argument)
{
    (void)argument;
    for (size_t i = 0; i < HANDED; i++)
        table[i] = touched(between(&state, 16, 500));
    return NULL;
}

static void *free_part(void *argument)
{
    /* In an order that visits each object once, wide apart. */
    for (size_t i = (size_t)argument; i < HANDED; i += RECEIVERS)
        free(table[i * 7919 % HANDED]);
    return NULL;
}

static void run(void *(*body)(void *), void *argument)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, body, argument))
        abort();
    pthread_join(thread, NULL);
}

static void handed(void)
{
    run(make_all, NULL);
    for (size_t i = 0; i < RECEIVERS; i++)
        run(free_part, (void *)i);
}

/* Many threads at once, each of which makes objects, frees most of them, and ends; the rest goes
 * when all have ended. */
enum { BRIEF = 64, BRIEF_OBJECTS = 5000 };

static void *be_brief(void *argument)
{
    uint64_t seed = state + (uintptr_t)argument;
    void **mine = table + (size_t)argument * BRIEF_OBJECTS;

    for (size_t i = 0; i < BRIEF_OBJECTS; i++)
        mine[i] = touched(between(&seed, 16, 600));
    for (size_t i = 0; i < BRIEF_OBJECTS; i++)
        if (next_random(&seed) % 20) {
            free(mine[i]);
            mine[i] = NULL;
        }
    return NULL;
}

static void brief_threads(void)
{
    pthread_t threads[BRIEF];

    for (size_t i = 0; i < BRIEF; i++)
        if (pthread_create(&threads[i], NULL, be_brief, (void *)i))
            abort();
    for (size_t i = 0; i < BRIEF; i++)
        pthread_join(threads[i], NULL);
    free_in_order((size_t)BRIEF * BRIEF_OBJECTS);
}

/* A heap of which one object in fifty stays, and then goes, too. */
static void survivors(void)
{
    enum { OBJECTS = 300000 };

    for (size_t i = 0; i < OBJECTS; i++)
        table[i] = touched(between(&state, 16, 400));
    for (size_t i = 0; i < OBJECTS; i++)
        if (i % 50) {
            free(table[i]);
            table[i] = NULL;
        }
    free_in_reverse(OBJECTS);
}

static void nothing(void)
{
}

static const struct shape {
    const char *name;
    void (*run)(void);
    /* What may be resident beside what is at the begin, in MiB; 0: any. */
    long most;
} shapes[] = {
    { "start", nothing, 1 },
    { "waves", waves, 24 },
    { "large_waves", large_waves, 8 },
    { "ring", ring, 8 },
    { "phases", phases, 0 },
    { "vectors", vectors, 0 },
    { "one_queue", one_queue, 0 },
    { "eight_queues", eight_queues, 0 },
    { "cut", cut, 8 },
    { "strings", strings, 16 },
    { "tree", tree, 16 },
    { "hashed", hashed, 8 },
    { "relay", relay, 20 },
    { "buffers", buffers, 12 },
    { "documents", documents, 0 },
    { "mixed", mixed, 16 },
    { "handed", handed, 20 },
    { "brief_threads", brief_threads, 24 },
    { "survivors", survivors, 16 },
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Beside what is at the begin, in MiB, where a helper gives back what no call does. */
enum { HELPED_MOST = 6 };
/* How many times as much without one where the kernel makes huge pages: what calls left behind is
 * resident with all that lies in its 2 MiB. */
enum { HUGE_TIMES = 2 };

static long most_of(const struct shape *shape)
{
    const char *helper = getenv("SLABYARD_HELPER");

    if (helper && *helper == '1')
        return HELPED_MOST;
    return makes_huge_pages() ? HUGE_TIMES * shape->most : shape->most;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static long rest_ms(void) { return (long)REST_MS * slower(); }

/* Runs it and rests; returns what is resident then, in KiB. */
static long resident_after(const struct shape *shape)
{
    struct timespec rest = { rest_ms() / 1000, rest_ms() % 1000 * 1000000L };

    table = map(MOST * sizeof *table);
    shape->run();
    munmap(table, MOST * sizeof *table);
    while (nanosleep(&rest, &rest) && errno == EINTR)
        ;
    return resident_kib();
}

static int print(const char *name)
{
    for (size_t i = 0; i < SHAPES; i++) {
        struct rusage used;
        double begin = now();
        long kib;

        if (*name == '-') {
            dprintf(1, "%s\n", shapes[i].name);
            continue;
        }
        if (strcmp(shapes[i].name, name))
            continue;
        kib = resident_after(&shapes[i]);
        getrusage(RUSAGE_SELF, &used);
        dprintf(1, "%ld %.0f %ld\n", kib, (now() - begin) * 1e3 - (double)rest_ms(), used.ru_minflt);
        return 0;
    }
    return *name != '-';
}

/* Runs each shape that has a limit and was not within it yet in a child of its own, all at once;
 * returns how many missed it. */
static int missed(int within[SHAPES], long begin)
{
    pid_t children[SHAPES] = { 0 };
    int misses = 0;

    for (size_t i = 0; i < SHAPES; i++) {
        long most = most_of(&shapes[i]) * 1024;

        if (most == 0 || within[i])
            continue;
        children[i] = fork();
        if (children[i] == 0) {
            alarm(HANGS_S * slower());
            long kib = resident_after(&shapes[i]);
            if (kib - begin > most)
                dprintf(1, "%s: of %ld KiB at the begin %ld became\n", shapes[i].name, begin, kib);
            _exit(kib - begin > most);
        }
    }
    for (size_t i = 0; i < SHAPES; i++) {
        int status = -1;

        if (children[i] == 0)
            continue;
        CHECK(waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status),
              "%s: status %#x", shapes[i].name, status);
        within[i] = status == 0;
        misses += !within[i];
    }
    return misses;
}

int main(int count, char **arguments)
{
    int within[SHAPES] = { 0 };
    long begin = resident_kib();

    if (count > 1)
        return print(arguments[1]);
    /* On a busy machine the clock goes on while the program does not: what goes back follows both. */
    for (int run = 1; missed(within, begin) > 0; run++)
        if (run == 3) {
            CHECK(0, "the shapes above were not within their limits in %d runs", run);
            break;
        }
    return finish("rest");
}
