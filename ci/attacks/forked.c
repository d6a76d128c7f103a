/*
 * A fork of any kind while other threads are in the midst of something:
 *
 *   forked HOW WHAT [threads=3] [holders=1] [forks=24] [seed=1] [figures]
 *
 * HOW: fork; copy (the system call itself, no handler runs); second (the fork of a second C
 * library, whose handlers are its own); shared (clone with the memory shared, the parent
 * waits for its end); vfork; bare-vfork (by `syscall`). WHAT: a row of the table below,
 * what the first `holders` threads do, or all; the others allocate.
 *
 * Each child checks and frees what the parent's threads had, allocates, and lets the
 * allocator check itself; some fork again. In the parent no call may fail.
 *
 * figures: the children end at once, nothing is asserted but what is sound, and one line says
 *   forks: microseconds of a fork, median and 99th of 100; work: the same of the time in which the
 *   thread that forks has a CPU: the rest it waits for one, or for the lock of its memory; calls:
 *   slowest of another thread without and with forks, microseconds; resident: most without and with
 *   forks, KiB
 */
#include "attack.h"
#include <locale.h>
#include <netdb.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

enum {
    MOST_THREADS = 8,
    SLOTS = 64,
    BURST = 30000,
    STACK = 256 * 1024,
    /* So much of a block is written and compared, and its last byte. */
    MARKED = 2048,
    MOST_FORKS = 4096,
    PIPE_HELD_US = 40000,
};

/* What a block begins with: all that a child needs to know of another's block. */
struct head {
    uint64_t shape, mark;
};

extern void (*earlier_at_fork[3])(void);

static void *slots[MOST_THREADS][SLOTS];
static int over, nr_ready;
static long nr_threads, nr_holders, nr_forks;
static uint64_t first_seed;
static int with_figures, has_forks;
static int (*verify)(void);
static pid_t (*second_fork)(void);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Of the calls without (0) and with (1) forks. */
static uint64_t slowest_ns[2][MOST_THREADS];
static long most_kib[2];
static uint64_t fork_ns[MOST_FORKS], work_ns[MOST_FORKS];
static __thread size_t me;
static __thread uint64_t seed;

static uint64_t by_clock(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now_ns(void) { return by_clock(CLOCK_MONOTONIC); }

static size_t below(size_t n) { return (size_t)(next_random(&seed) >> 20) % n; }

/* --- Blocks that say what they are */

static uint64_t mark_of(const void *p, uint64_t shape)
{
    return ((uint64_t)(uintptr_t)p ^ shape << 7) * 0x9e3779b97f4a7c15u | 1;
}

static void note(uint64_t since)
{
    uint64_t took = now_ns() - since, *slowest = &slowest_ns[__atomic_load_n(&has_forks, __ATOMIC_RELAXED)][me];

    if (took > *slowest)
        *slowest = took;
}

static void *checked_zero(size_t size)
{
    void *p = calloc(1, size);

    if (p && !with_figures)
        CHECK(all_zero(p, size), "calloc(%zu) at %p is not zero", size, p);
    return p;
}

static void *moved(size_t size)
{
    size_t half = size / 2;
    char *p = opaque(malloc(half)), *q;

    if (!p)
        return NULL;
    fill(p, half < MARKED ? half : MARKED, half);
    q = opaque(realloc(p, size));
    if (q)
        CHECK(intact(q, half < MARKED ? half : MARKED, half), "realloc to %zu lost contents", size);
    return q;
}

static void *aligned(size_t log, size_t size)
{
    size_t align = (size_t)1 << log;
    void *p = NULL;

    switch (below(3)) {
    case 0:
        return posix_memalign(&p, align, size) ? NULL : p;
    case 1:
        return aligned_alloc(align, (size + align - 1) & ~(align - 1));
    default:
        return memalign(align, size);
    }
}

static void *make(size_t size, size_t log)
{
    uint64_t since = now_ns();
    size_t kind = below(8), marked = size < MARKED ? size : MARKED;
    void *p = opaque(log > 4 ? aligned(log, size) : kind == 0 ? checked_zero(size)
                     : kind == 1 ? moved(size) : malloc(size));
    struct head *head = p;

    note(since);
    CHECK(p, "no memory for %zu bytes, error %d", size, errno);
    if (!p)
        return NULL;
    CHECK(aligned_to(p, (size_t)1 << log), "%zu bytes at %p, alignment 2^%zu", size, p, log);
    head->shape = size | (uint64_t)log << 48;
    head->mark = mark_of(p, head->shape);
    fill(head + 1, marked - sizeof *head, head->mark);
    ((char *)p)[size - 1] = marked < size ? 'e' : ((char *)p)[size - 1];
    return p;
}

static void drop(void *p)
{
    struct head *head = p;
    size_t size, marked;
    uint64_t since;

    if (!p)
        return;
    CHECK(head->mark == mark_of(p, head->shape), "the head of %p is another's", p);
    if (head->mark != mark_of(p, head->shape))
        return;
    size = head->shape & 0xffffffffffffu;
    marked = size < MARKED ? size : MARKED;
    CHECK(intact(head + 1, marked - sizeof *head, head->mark), "%zu bytes at %p are another's", size, p);
    CHECK(marked == size || ((char *)p)[size - 1] == 'e', "the end of %zu bytes at %p", size, p);
    CHECK(malloc_usable_size(p) >= size, "%zu bytes of room for %zu at %p", malloc_usable_size(p), size, p);
    /* Whoever finds it again would take it for a block. */
    head->mark = 0;
    since = now_ns();
    free(p);
    note(since);
}

/* Whoever takes a block out of its slot owns it: a thread, or a child. */
static void *taken(void **slot) { return __atomic_exchange_n(slot, NULL, __ATOMIC_ACQ_REL); }

static void put(void **slot, void *p) { drop(__atomic_exchange_n(slot, p, __ATOMIC_ACQ_REL)); }

static void one_block(size_t size, size_t log)
{
    void **slot = &slots[me][below(SLOTS)], *p = taken(slot);

    if (p)
        drop(p);
    else
        put(slot, make(size, log));
}

static void some_blocks(int nr, size_t least, size_t most)
{
    while (nr-- > 0)
        one_block(least + below(most - least), 4);
}

/* --- What the threads do */

static void rest(void) { usleep(1000); }
static void small(void) { some_blocks(100, 16, 500); }
static void large(void) { some_blocks(6, 60000, 1500000); }

static void mixed(void)
{
    some_blocks(40, 16, 500);
    some_blocks(10, 500, 40000);
    some_blocks(2, 40000, 300000);
}

static void aligned_ones(void)
{
    int n;

    for (n = 0; n < 40; n++)
        one_block(100 + below(200), 12 + below(6));
    mixed();
}

/* As many small ones as a program has that keeps its data, and all of them go. */
static void burst(void)
{
    static void *kept[MOST_THREADS][BURST];
    long n, nr = with_figures ? BURST : BURST / 5;

    for (n = 0; n < nr && !__atomic_load_n(&over, __ATOMIC_RELAXED); n++)
        kept[me][n] = make(100, 4);
    while (n > 0)
        drop(kept[me][--n]);
    mixed();
}

static int pipe_ends[2];
/* More than a pipe holds, and less than the stream's buffer. */
enum { PIPED = 100000 };

static void *read_late(void *argument)
{
    static char text[1 << 16];

    do {
        usleep(PIPE_HELD_US);
    } while (read(pipe_ends[0], text, sizeof text) > 0);
    return argument;
}

static FILE *piped;

/* Once: of two pipes the reader would read one. */
static void make_pipe(void)
{
    static char buffer[2 * PIPED];
    pthread_t reader;

    if (pipe(pipe_ends) || pthread_create(&reader, NULL, read_late, NULL))
        not_possible("a pipe");
    pthread_detach(reader);
    piped = fdopen(pipe_ends[1], "w");
    setvbuf(piped, buffer, _IOFBF, sizeof buffer);
}

/* Stands in a flush of all streams for most of its time. */
static void blocked_pipe(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static char text[PIPED];

    pthread_once(&once, make_pipe);
    fwrite(text, 1, sizeof text, piped);
    fflush(NULL);
    /* The lock of the list is not fair: a fork is to get it. */
    usleep(3000);
}

static ssize_t write_and_allocate(void *cookie, const char *text, size_t size)
{
    (void)cookie;
    (void)text;
    some_blocks(6, 90000, 110000);
    return (ssize_t)size;
}

static void streams(void)
{
    static __thread FILE *stream;

    if (!stream)
        stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = write_and_allocate });
    fputs("text", stream);
    fflush(stream);
    fputs("text", stream);
    fflush(NULL);
}

static void loader(void)
{
    static const char *const names[] = { "libresolv.so.2", "libnsl.so.1", "libutil.so.1", "libanl.so.1" };
    void *library = dlopen(names[below(4)], RTLD_NOW);

    if (library)
        dlclose(library);
    some_blocks(20, 16, 5000);
}

static void locales(void)
{
    locale_t locale = newlocale(LC_ALL_MASK, below(2) ? "C.UTF-8" : "POSIX", NULL);

    if (locale)
        freelocale(locale);
    setlocale(LC_ALL, below(2) ? "C.UTF-8" : "C");
    some_blocks(20, 16, 5000);
}

static void names(void)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *found = NULL;
    struct passwd user, *result;
    char text[1024];

    if (getaddrinfo("127.0.0.1", "80", &hints, &found) == 0)
        freeaddrinfo(found);
    getpwuid_r(getuid(), &user, text, sizeof text, &result);
    (void)getpwnam("root");
    some_blocks(20, 16, 5000);
}

/* A lock of the program that its handlers of fork take. */
static void under_lock(void)
{
    pthread_mutex_lock(&lock);
    mixed();
    pthread_mutex_unlock(&lock);
    mixed();
}

static void take_lock(void) { pthread_mutex_lock(&lock); }
static void give_lock(void) { pthread_mutex_unlock(&lock); }

static void trims(void)
{
    mixed();
    malloc_trim(0);
}

static void statistics(void)
{
    struct mallinfo2 info = mallinfo2();

    CHECK(info.uordblks < (size_t)1 << 40, "%zu bytes in use", info.uordblks);
    mixed();
}

static void checks(void)
{
    mixed();
    if (verify)
        CHECK(verify() != 1, "%s", "the yard is not sound beside other threads");
}

/* What is free on one CPU is taken back from another. */
static void drains(void)
{
    cpu_set_t one, all;

    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    CPU_SET(below((size_t)CPU_COUNT(&all)), &one);
    sched_setaffinity(0, sizeof one, &one);
    some_blocks(3000, 16, 3000);
    sched_setaffinity(0, sizeof all, &all);
    malloc_trim(0);
}

static const struct row {
    const char *name;
    void (*hold)(void), (*others)(void);
    /* The handlers of fork: none, a library's before ours, the program's. */
    enum { NONE, EARLIER, LATER } handlers;
} rows[] = {
    { "idle", rest, rest, NONE },
    { "small", small, small, NONE },
    { "mixed", mixed, mixed, NONE },
    { "large", large, large, NONE },
    { "aligned", aligned_ones, aligned_ones, NONE },
    { "pipe", blocked_pipe, burst, NONE },
    { "streams", streams, mixed, NONE },
    { "loader", loader, mixed, NONE },
    { "locale", locales, mixed, NONE },
    { "names", names, mixed, NONE },
    { "handlers-earlier", under_lock, under_lock, EARLIER },
    { "handlers-later", under_lock, under_lock, LATER },
    { "trim", trims, mixed, NONE },
    { "statistics", statistics, mixed, NONE },
    { "check", checks, mixed, NONE },
    { "drain", drains, mixed, NONE },
};
static const struct row *row;

static void *work(void *argument)
{
    void (*does)(void);
    size_t n;

    me = (uintptr_t)argument;
    seed = (first_seed * 1000 + me) * 0x9e3779b97f4a7c15u | 1;
    does = (long)me < nr_holders ? row->hold : row->others;
    __atomic_add_fetch(&nr_ready, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&over, __ATOMIC_RELAXED))
        does();
    for (n = 0; n < SLOTS; n++)
        put(&slots[me][n], NULL);
    return NULL;
}

/* --- Children */

static pid_t copied(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); }
static pid_t of_second(void) { return second_fork(); }

static void live(int shares)
{
    void *own[200];
    int n, m;

    for (m = 0; m < nr_threads; m++)
        for (n = 0; n < SLOTS; n += 1 + shares)
            drop(taken(&slots[m][n]));
    for (n = 0; n < 200; n++)
        own[n] = make(n % 20 == 0 ? 40000 + below(300000) : 16 + below(3000), n % 9 == 0 ? 6 + below(9) : 4);
    for (n = 0; n < 200; n++)
        drop(own[n]);
}

static void be_child(pid_t (*way)(void), int again)
{
    alarm(40);
    if (with_figures)
        _exit(0);
    live(0);
    if (again)
        malloc_trim(0);
    if (verify)
        CHECK(verify() == 0, "%s", "the yard is not sound in the child");
    if (again) {
        pid_t pid = way();

        if (pid == 0) {
            live(0);
            _exit(nr_failed != 0);
        }
        expect_good_end(pid, "a child's child");
        live(0);
    }
    _exit(nr_failed != 0);
}

static int be_shared_child(void *argument)
{
    (void)argument;
    if (!with_figures)
        live(1);
    _exit(nr_failed != 0);
}

static pid_t shared(void)
{
    static char stack[STACK] __attribute__((aligned(64)));

    return clone(be_shared_child, stack + STACK, CLONE_VM | SIGCHLD, NULL);
}

static pid_t vforked(void)
{
    pid_t pid = vfork();

    if (pid == 0)
        be_shared_child(NULL);
    return pid;
}

/*
 * By the C library's `syscall`, in assembly: the return address of the parent's call stays on the
 * stack that both have, so the child goes on below it. The frame pointer tells an unwinder where the
 * caller's frame is: a debugging library asks `backtrace` in the child.
 */
static __attribute__((noinline, optimize("no-omit-frame-pointer"))) pid_t bare_vforked(void)
{
#ifdef __x86_64__
    register int (*child)(void *) __asm__("r12") = be_shared_child;
    register long number __asm__("rdi") = SYS_vfork;
    long pid;

    __asm__ volatile("mov %%rsp, %%rbx\n\t"
                     "sub $128, %%rsp\n\t"
                     "and $-64, %%rsp\n\t"
                     "call syscall@PLT\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "sub $4096, %%rsp\n\t"
                     "call *%%r12\n"
                     "1: mov %%rbx, %%rsp"
                     : "=a"(pid), "+r"(number), "+r"(child)
                     :
                     : "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
    return (pid_t)pid;
#else
    return vforked();
#endif
}

static const struct way {
    const char *name;
    pid_t (*make)(void);
    enum { COPIES, SHARES } memory;
} ways[] = {
    { "fork", fork, COPIES },     { "copy", copied, COPIES },   { "second", of_second, COPIES },
    { "shared", shared, SHARES }, { "vfork", vforked, SHARES }, { "bare-vfork", bare_vforked, SHARES },
};

static void fork_often(const struct way *way)
{
    long i;

    for (i = 0; i < nr_forks && !__atomic_load_n(&nr_failed, __ATOMIC_RELAXED); i++) {
        uint64_t since, worked;
        long kib;
        pid_t pid;

        usleep(200 + (useconds_t)below(300));
        worked = by_clock(CLOCK_THREAD_CPUTIME_ID);
        since = now_ns();
        pid = way->make();
        if (pid == 0)
            be_child(way->make, i % 6 == 0);
        fork_ns[i % MOST_FORKS] = now_ns() - since;
        work_ns[i % MOST_FORKS] = by_clock(CLOCK_THREAD_CPUTIME_ID) - worked;
        CHECK(pid > 0, "no child: error %d", errno);
        if (i % 16 == 0 && (kib = resident_kib()) > most_kib[1])
            most_kib[1] = kib;
        expect_good_end(pid, "a child");
    }
}

static void without_forks(uint64_t until)
{
    long kib;

    do {
        usleep(10000);
        if ((kib = resident_kib()) > most_kib[0])
            most_kib[0] = kib;
    } while (now_ns() < until);
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static unsigned long slowest_us(int phase)
{
    uint64_t most = 0;
    int n;

    for (n = 0; n < MOST_THREADS; n++)
        if (slowest_ns[phase][n] > most)
            most = slowest_ns[phase][n];
    return (unsigned long)(most / 1000);
}

/* The median and the 99th of 100, in microseconds. */
static void print_two(const char *what, uint64_t *ns)
{
    long nr = nr_forks < MOST_FORKS ? nr_forks : MOST_FORKS;

    qsort(ns, (size_t)nr, sizeof *ns, by_size);
    printf("%s %lu %lu ", what, (unsigned long)(ns[nr / 2] / 1000),
           (unsigned long)(ns[nr * 99 / 100] / 1000));
}

static void print_figures(void)
{
    print_two("forks:", fork_ns);
    print_two("work:", work_ns);
    printf("calls: %lu %lu resident: %ld %ld\n", slowest_us(0), slowest_us(1), most_kib[0], most_kib[1]);
}

static void open_second(void)
{
    void *library = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);

    if (!library)
        not_possible("a second C library");
    *(void **)&second_fork = dlsym(library, "fork");
}

int main(int argc, char **argv)
{
    const char *text = "forked HOW WHAT [threads=N] [holders=N] [forks=N] [seed=N] [figures]";
    pthread_t threads[MOST_THREADS];
    const struct way *way = NULL;
    size_t n;

    for (n = 0; argc > 2 && n < sizeof ways / sizeof *ways; n++)
        if (strcmp(argv[1], ways[n].name) == 0)
            way = &ways[n];
    for (n = 0; argc > 2 && n < sizeof rows / sizeof *rows; n++)
        if (strcmp(argv[2], rows[n].name) == 0)
            row = &rows[n];
    nr_threads = number_of(argv, "threads", 3);
    nr_holders = number_of(argv, "holders", 1);
    nr_forks = number_of(argv, "forks", 24);
    first_seed = seed = (uint64_t)number_of(argv, "seed", 1);
    with_figures = has_word(argv, "figures");
    if (!way || !row || nr_threads < 1 || nr_threads > MOST_THREADS || nr_forks < 1)
        usage(text);
    *(void **)&verify = dlsym(RTLD_DEFAULT, "slabyard_verify");
    if (way->make == of_second)
        open_second();
    if (row->handlers == EARLIER) {
        earlier_at_fork[0] = take_lock;
        earlier_at_fork[1] = earlier_at_fork[2] = give_lock;
    } else if (row->handlers == LATER) {
        pthread_atfork(take_lock, give_lock, give_lock);
    }
    for (n = 0; n < (size_t)nr_threads; n++)
        if (pthread_create(&threads[n], NULL, work, (void *)(uintptr_t)n))
            not_possible("a thread");
    me = MOST_THREADS - 1;
    while (__atomic_load_n(&nr_ready, __ATOMIC_SEQ_CST) < nr_threads)
        usleep(100);
    if (with_figures)
        without_forks(now_ns() + 300000000);
    __atomic_store_n(&has_forks, 1, __ATOMIC_RELAXED);
    fork_often(way);
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (n = 0; n < (size_t)nr_threads; n++)
        pthread_join(threads[n], NULL);
    if (with_figures)
        print_figures();
    return finish("forked");
}
