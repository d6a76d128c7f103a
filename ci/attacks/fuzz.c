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
 *   all            by all functions, the C++ ones among them
 *   sized          and free_sized, whose size is what was asked for last
 *   forks          children of fork check what they have and go on for a while
 *   churn          threads come and go
 *   affinity       threads move from CPU to CPU
 *   later=CALL:HOW when a third is done, this system call is refused
 *   list=NAME      then all calls are deadly but those of a list of refuse.h
 *   closed         then no file and no process may be made any more
 */
#include "entries.h"
#include "refuse.h"
#include <sched.h>
#include <signal.h>

enum { SLOTS = 48, PLACES = 32, HANDLER_SLOTS = 4 };

struct block {
    void *p;
    size_t size, align;
    enum family family;
    uint64_t seed;
};

static long nr_threads, nr_steps, log_most, log_align, steps_to_trim;
static int nulls_allowed, all_entries, has_churn, moves;
static cpu_set_t all_cpus;
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
    if (all_entries)
        free_by(block->p, block->size, block->align, block->family, block->seed >> 30);
    else
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

/* By any function, half of the time by the common ones. */
static void *by_any(uint64_t *random, size_t size, size_t *align, enum family *family)
{
    size_t entry = below(random, 2) ? below(random, 3) : below(random, NR_ENTRIES);
    void *p;

    *align = (size_t)1 << (4 + below(random, below(random, 16) ? 9 : (size_t)log_align - 3));
    p = memory_by(entry, size, align, family, !nulls_allowed);
    CHECK(aligned_to(p, *align), "entry %zu gave %p for %zu bytes, alignment %zu", entry, p, size, *align);
    return p;
}

static void make(struct block *block, uint64_t *random)
{
    size_t size = some_size(random), kind = below(random, 16), align = 0;
    enum family family = OF_MALLOC;
    void *p = all_entries ? by_any(random, size, &align, &family)
              : kind < 3  ? zeroed(size)
              : kind == 3 ? aligned(random, size)
                          : malloc(size);

    if (refused(opaque(p)))
        return;
    __atomic_store_n(&any_made, 1, __ATOMIC_RELAXED);
    CHECK(aligned_to(p, size < 16 ? 8 : 16), "%zu bytes at %p", size, p);
    CHECK(malloc_usable_size(p) >= size, "%zu bytes of room for %zu", malloc_usable_size(p), size);
    *block = (struct block){ p, size, align, family, next_random(random) };
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
    if (block->family > OF_ALIGNED)
        return drop(block);
    check(block, "before realloc");
    p = opaque(all_entries && size % 2 ? reallocarray(block->p, size, 1) : realloc(block->p, size));
    if (refused(p))
        return check(block, "after realloc that failed");
    block->p = p;
    block->family = OF_MALLOC;
    block->align = size < 16 ? 8 : 16;
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
        blocks[n] = (struct block){ p, size < 500 ? size : 500, 32, OF_MALLOC, next_random(&random) };
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

/* A thread that is there for a few calls. */
static void *short_life(void *argument)
{
    struct block slots[SLOTS] = { 0 };
    uint64_t random = (uint64_t)(uintptr_t)argument | 1;
    int n;

    for (n = 0; n < 200; n++)
        step(slots, &random);
    for (n = 0; n < SLOTS; n++)
        drop(&slots[n]);
    return NULL;
}

/* What a thread does beside its steps, now and then. */
static void now_and_then(long n, uint64_t *random)
{
    struct mallinfo2 info;
    pthread_t other;
    cpu_set_t one;
    size_t cpu;

    if (steps_to_trim && n % steps_to_trim == steps_to_trim - 1)
        malloc_trim(0);
    if (all_entries && n % 1500 == 1499) {
        info = mallinfo2();
        CHECK(info.uordblks < (size_t)1 << 44, "%zu bytes in use", info.uordblks);
    }
    if (has_churn && n % 400 == 399
        && pthread_create(&other, NULL, short_life, (void *)(uintptr_t)next_random(random)) == 0)
        pthread_join(other, NULL);
    if (moves && n % 250 == 249) {
        cpu = below(random, CPU_SETSIZE);
        while (!CPU_ISSET(cpu, &all_cpus))
            cpu = (cpu + 1) % CPU_SETSIZE;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
}

/* A child has what its parent had: it checks that, and goes on. */
static void one_fork(uint64_t *random)
{
    pid_t pid = fork();
    size_t n;

    if (pid == 0) {
        alarm(50);
        for (n = 0; n < PLACES; n++)
            if (!__atomic_test_and_set(&places[n].locked, __ATOMIC_ACQUIRE))
                drop(&places[n].block);
        short_life((void *)(uintptr_t)next_random(random));
        if (next_random(random) % 4 == 0)
            malloc_trim(0);
        verify_yard("in a child");
        _exit(nr_failed != 0);
    }
    if (pid < 0)
        CHECK(nulls_allowed, "no child: error %d", errno);
    else
        expect_good_end(pid, "a child");
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
        now_and_then(n, &random);
        __atomic_add_fetch(&nr_done, 1, __ATOMIC_RELAXED);
    }
    for (i = 0; i < SLOTS; i++)
        drop(&slots[i]);
    __atomic_add_fetch(&nr_ended, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* As many as can be made. */
static void run(long nr_wanted, uint64_t seed, int with_signals, int with_forks)
{
    pthread_t threads[MAX_THREADS];
    uint64_t random = seed * 77 | 1;
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
        if (with_forks)
            one_fork(&random);
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
    all_entries = has_word(argv, "all");
    has_churn = has_word(argv, "churn");
    moves = has_word(argv, "affinity");
    if (all_entries)
        find_entries();
    if (!has_word(argv, "sized"))
        entries.free_sized = NULL;
    if (sched_getaffinity(0, sizeof all_cpus, &all_cpus))
        not_possible("the CPUs");
    if (nr_wanted > MAX_THREADS)
        usage("threads=N, at most 64");
    sigaction(SIGUSR1, &action, NULL);
    run(nr_wanted, (uint64_t)number_of(argv, "seed", 1), has_word(argv, "signals"),
        has_word(argv, "forks"));
    for (n = 0; n < PLACES; n++)
        drop(&places[n].block);
    malloc_trim(0);
    if (has_word(argv, "counts"))
        fprintf(stderr, "%ld steps, %ld without memory\n", nr_done, nr_nulls);
    /* Without any memory there is nothing that could be sound. */
    return any_made ? finish("fuzz") : nr_failed != 0;
}
