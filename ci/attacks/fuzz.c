/*
 * Threads that allocate, resize and free, hand blocks to each other, and check
 * every byte: contents come along and are nobody else's, calloc's are zero,
 * addresses are aligned as was asked for.
 *
 *   fuzz [WORD...]
 *
 *   threads=4      as many as can be made; 0: the first thread alone
 *   steps=15000    of each thread
 *   seed=1
 *   most=22        blocks are at most so large, as a power of two
 *   align=20       largest alignment, as a power of two
 *   trims=0        steps of a thread between its trims; 0: none
 *   nulls          the system may refuse memory: NULL with ENOMEM is right
 *   signals        the threads are interrupted by handlers that allocate
 *   later=CALL:HOW when a third is done, this system call is refused
 *   list=NAME      then all calls are deadly but those of a list of refuse.h
 *   closed         then no file and no process may be made any more
 */
#include "refuse.h"
#include <signal.h>

enum { SLOTS = 48, PLACES = 32, HANDLER_SLOTS = 4 };

struct block {
    void *p;
    size_t size;
    uint64_t seed;
};

static long nr_threads, nr_steps, log_most, log_align, steps_to_trim;
static int nulls_allowed;
static char **words;
static long nr_begun, may_step, nr_done, any_made, nr_nulls, nr_ended;
static struct {
    char locked;
    struct block block;
} places[PLACES];
static __thread struct block of_handler[HANDLER_SLOTS];
static __thread uint64_t handler_random;

static size_t below(uint64_t *random, size_t n)
{
    return (size_t)(next_random(random) >> 20) % n;
}

/* Mostly small, as powers of two go. */
static size_t some_size(uint64_t *random)
{
    size_t kind = below(random, 64);
    long log = kind == 0 ? log_most : kind < 8 ? 18 : 12;

    return 1 + below(random, (size_t)1 << (4 + below(random, (size_t)(log < log_most ? log : log_most) - 3)));
}

static int refused(void *p)
{
    if (p)
        return 0;
    CHECK(nulls_allowed, "no memory, errno %d", errno);
    CHECK(errno == ENOMEM, "errno is %d without memory", errno);
    __atomic_add_fetch(&nr_nulls, 1, __ATOMIC_RELAXED);
    return 1;
}

static void check(const struct block *block, const char *when)
{
    CHECK(intact(block->p, block->size, block->seed), "%s: %zu bytes at %p are another's",
          when, block->size, block->p);
}

static void drop(struct block *block)
{
    if (!block->p)
        return;
    check(block, "at its end");
    free(block->p);
    block->p = NULL;
}

static void *zeroed(size_t size)
{
    void *p = calloc(1, size);

    CHECK(!p || all_zero(p, size), "calloc(%zu) at %p is not zero", size, p);
    return p;
}

static void *aligned(uint64_t *random, size_t size)
{
    size_t align = (size_t)1 << (4 + below(random, (size_t)log_align - 3));
    void *p = NULL;

    /* The large ones cost address space, not time. */
    if (align > 4096 && below(random, 16))
        align = 4096;
    errno = posix_memalign(&p, align, size);
    if (errno)
        p = NULL;
    CHECK(aligned_to(p, align), "posix_memalign(%zu, %zu) gave %p", align, size, p);
    return p;
}

static void make(struct block *block, uint64_t *random)
{
    size_t size = some_size(random), kind = below(random, 16);
    void *p = kind < 3 ? zeroed(size) : kind == 3 ? aligned(random, size) : malloc(size);

    if (refused(opaque(p)))
        return;
    __atomic_store_n(&any_made, 1, __ATOMIC_RELAXED);
    CHECK(aligned_to(p, size < 16 ? 8 : 16), "%zu bytes at %p", size, p);
    CHECK(malloc_usable_size(p) >= size, "%zu bytes of room for %zu", malloc_usable_size(p), size);
    *block = (struct block){ p, size, next_random(random) };
    fill(p, size, block->seed);
}

static void resize(struct block *block, uint64_t *random)
{
    size_t size = below(random, 2) ? some_size(random) : block->size + below(random, block->size + 1);
    size_t both = size < block->size ? size : block->size;
    void *p;

    if (size > (size_t)1 << log_most)
        size = 1;
    if (both > size)
        both = size;
    check(block, "before realloc");
    p = opaque(realloc(block->p, size));
    if (refused(p))
        return check(block, "after realloc that failed");
    block->p = p;
    CHECK(intact(p, both, block->seed), "realloc to %zu at %p lost contents", size, p);
    block->size = size;
    block->seed = next_random(random);
    fill(p, size, block->seed);
}

/* Another thread finds it there, some time later. */
static void exchange(struct block *block, uint64_t *random)
{
    size_t n = below(random, PLACES);
    struct block found;

    if (__atomic_test_and_set(&places[n].locked, __ATOMIC_ACQUIRE))
        return;
    found = places[n].block;
    places[n].block = *block;
    *block = found;
    __atomic_clear(&places[n].locked, __ATOMIC_RELEASE);
}

static void step(struct block *slots, uint64_t *random)
{
    struct block *block = &slots[below(random, SLOTS)];
    size_t what = below(random, 8);

    if (what == 0)
        exchange(block, random);
    else if (!block->p)
        make(block, random);
    else if (what == 1)
        resize(block, random);
    else
        drop(block);
}

static void handler(int number)
{
    int before = errno;
    struct block *block;

    (void)number;
    block = &of_handler[below(&handler_random, HANDLER_SLOTS)];
    if (block->p)
        drop(block);
    else
        make(block, &handler_random);
    errno = before;
}

/* More than there was until now: the heap grows under the new rules. */
static void grow(void)
{
    enum { GROWN = 1600 };
    static struct block blocks[GROWN];
    uint64_t random = 321;
    int n;

    for (n = 0; n < GROWN; n++) {
        size_t size = 20000 + below(&random, 60000);
        void *p = opaque(malloc(size));

        if (refused(p))
            continue;
        blocks[n] = (struct block){ p, size < 500 ? size : 500, next_random(&random) };
        fill(p, blocks[n].size, blocks[n].seed);
    }
    for (n = 0; n < GROWN; n++)
        drop(&blocks[n]);
}

static void change(void)
{
    if (!text_of(words, "later") && !text_of(words, "list") && !has_word(words, "closed"))
        return;
    change_the_rules(words);
    grow();
}

static void *thread(void *argument)
{
    struct block slots[SLOTS] = { 0 };
    uint64_t random = (uint64_t)(uintptr_t)argument * 0x9e3779b97f4a7c15u | 1;
    long n, i;

    handler_random = random ^ 0x5555;
    /* What the C library calls as a thread begins is on no list of those that may be called. */
    __atomic_add_fetch(&nr_begun, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&may_step, __ATOMIC_SEQ_CST))
        usleep(100);
    for (n = 0; n < nr_steps; n++) {
        if (nr_threads == 0 && n == nr_steps / 3)
            change();
        step(slots, &random);
        if (steps_to_trim && n % steps_to_trim == steps_to_trim - 1)
            malloc_trim(0);
        __atomic_add_fetch(&nr_done, 1, __ATOMIC_RELAXED);
    }
    for (i = 0; i < SLOTS; i++)
        drop(&slots[i]);
    __atomic_add_fetch(&nr_ended, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* As many as can be made. */
static void run(long nr_wanted, uint64_t seed, int with_signals)
{
    pthread_t threads[MAX_THREADS];
    int changed = 0;
    long n;

    for (n = 0; n < nr_wanted; n++)
        if (pthread_create(&threads[n], NULL, thread, (void *)(uintptr_t)(seed * 1000 + (unsigned long)n)))
            break;
    CHECK(n == nr_wanted || nulls_allowed, "thread %ld cannot be made", n);
    nr_threads = n;
    while (__atomic_load_n(&nr_begun, __ATOMIC_SEQ_CST) < nr_threads)
        usleep(100);
    __atomic_store_n(&may_step, 1, __ATOMIC_SEQ_CST);
    if (!nr_threads)
        thread((void *)(uintptr_t)seed);
    while (__atomic_load_n(&nr_ended, __ATOMIC_SEQ_CST) < nr_threads) {
        if (!changed && __atomic_load_n(&nr_done, __ATOMIC_RELAXED) >= nr_threads * nr_steps / 3) {
            change();
            changed = 1;
        }
        /* A thread that is not joined may be signalled though it has ended. */
        for (n = 0; with_signals && n < nr_threads; n++)
            pthread_kill(threads[n], SIGUSR1);
        usleep(with_signals ? 50 : 1000);
    }
    for (n = 0; n < nr_threads; n++)
        pthread_join(threads[n], NULL);
}

int main(int argc, char **argv)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    long nr_wanted = number_of(argv, "threads", 4);
    int n;

    (void)argc;
    words = argv;
    nr_threads = nr_wanted;
    nr_steps = number_of(argv, "steps", 15000);
    log_most = number_of(argv, "most", 22);
    log_align = number_of(argv, "align", 20);
    steps_to_trim = number_of(argv, "trims", 0);
    nulls_allowed = has_word(argv, "nulls");
    if (nr_wanted > MAX_THREADS)
        usage("threads=N, at most 64");
    sigaction(SIGUSR1, &action, NULL);
    run(nr_wanted, (uint64_t)number_of(argv, "seed", 1), has_word(argv, "signals"));
    for (n = 0; n < PLACES; n++)
        drop(&places[n].block);
    malloc_trim(0);
    if (has_word(argv, "counts"))
        fprintf(stderr, "%ld steps, %ld without memory\n", nr_done, nr_nulls);
    /* Without any memory there is nothing that could be sound. */
    return any_made ? finish("fuzz") : nr_failed != 0;
}
