/*
 * How much stack each function takes, on stacks that are painted before: the
 * slow paths at most 3 KiB, statistics and the report at the end at most
 * 4 KiB. What coroutines, small threads and handlers on an alternate
 * stack can count on.
 *
 * `STACK_PLANTED` makes each stage use a large frame, which must be
 * seen.
 */
#include "check.h"
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>

enum { statistics_most = 4096 };
enum { STACK = 128 << 10, NR = 400, ROUNDS = 8, PAINT = 0xa5 };

/* Or what STACK_SLOW says. */
static size_t slow_most = 3072;

static char *stack;
static size_t empty_depth;
static ucontext_t outside, inside;
static void (*body)(void);
static const char *prints;

static void on_stack(void)
{
    body();
}

static size_t depth(void)
{
    size_t unused = 0;

    while (unused < STACK && (unsigned char)stack[unused] == PAINT)
        unused++;
    return STACK - unused;
}

/* Calls `f` on the painted stack; the bytes that it used. */
static size_t run(void (*f)(void))
{
    body = f;
    memset(stack, PAINT, STACK);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = STACK;
    inside.uc_link = &outside;
    makecontext(&inside, on_stack, 0);
    swapcontext(&outside, &inside);
    return depth() - empty_depth;
}

static void nothing(void) {}

static void judge(const char *what, size_t used, size_t most)
{
    if (prints)
        printf("%-20s %zu\n", what, used);
    CHECK(used <= most, "%s: %zu bytes of stack, at most %zu", what, used, most);
}

/* Before every constructor: the process's first call. */
static size_t first_depth;
static void *volatile first_block;

static void first_call(void)
{
    first_block = malloc(100);
}

static void before_all(void)
{
    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        _exit(98);
    empty_depth = run(nothing);
    first_depth = run(first_call);
}

__attribute__((section(".preinit_array"), used)) static void (*before)(void) = before_all;

/* Blocks of all kinds: most are small, some are runs, few are mappings. */
static void *blocks[NR];
static size_t sizes[NR];
static uint64_t seed = 88172645463325252;

static size_t any_size(void)
{
    uint64_t r = next_random(&seed);

    switch (r % 16) {
    case 0:
        return r >> 20 & 0x1fffff;
    case 1:
    case 2:
        return r >> 20 & 0x1ffff;
    default:
        return r >> 20 & 0x1fff;
    }
}

static void by_malloc(void)
{
    for (int i = 0; i < NR; i++)
        blocks[i] = malloc(sizes[i]);
}
static void by_calloc(void)
{
    for (int i = 0; i < NR; i++)
        blocks[i] = calloc(sizes[i], 1);
}
static void by_memalign(void)
{
    for (int i = 0; i < NR; i++)
        if (posix_memalign(&blocks[i], 16ul << i % 16, sizes[i]))
            blocks[i] = NULL;
}
static void by_realloc(void)
{
    for (int i = 0; i < NR; i++)
        blocks[i] = realloc(blocks[i], sizes[NR - 1 - i] + 1);
}
static void by_free(void)
{
    for (int i = 0; i < NR; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}
static void *(*new_)(size_t);
static void (*delete_)(void *);
static void (*delete_sized)(void *, size_t);
static void by_new(void)
{
    for (int i = 0; i < NR; i++)
        blocks[i] = new_(sizes[i]);
}
static void by_delete(void)
{
    for (int i = 0; i < NR; i++) {
        if (i % 2)
            delete_(blocks[i]);
        else
            delete_sized(blocks[i], sizes[i]);
        blocks[i] = NULL;
    }
}
static void by_usable_size(void)
{
    for (int i = 0; i < NR; i++)
        malloc_usable_size(blocks[i]);
}
static FILE *sink;
static void by_trim(void)
{
    malloc_trim(0);
}
static void by_mallinfo(void)
{
    mallinfo();
}
static void by_mallinfo2(void)
{
    mallinfo2();
}
static void by_stats(void)
{
    malloc_stats();
}
static void by_info(void)
{
    malloc_info(0, sink);
}
static void planted(void)
{
    volatile char frame[8192];

    frame[0] = 1;
}

static void touch(void)
{
    for (int i = 0; i < NR; i++)
        for (size_t at = 0; blocks[i] && at < sizes[i]; at += 4096)
            ((char *)blocks[i])[at] = 1;
}

static void choose_sizes(void)
{
    for (int i = 0; i < NR; i++)
        sizes[i] = any_size();
}

/* Allocates by one function and frees by another, over the time that pages need to age. */
static void pair(const char *taking, void (*take)(void), const char *giving, void (*give)(void))
{
    size_t took = 0, gave = 0;

    for (int round = 0; round < ROUNDS; round++) {
        size_t used;

        choose_sizes();
        used = run(take);
        took = used > took ? used : took;
        touch();
        if (round % 4 == 0)
            usleep(4000);
        used = run(give);
        gave = used > gave ? used : gave;
        if (round % 8 == 7)
            usleep(12000);
    }
    judge(taking, took, slow_most);
    judge(giving, gave, slow_most);
}

static void one(const char *what, void (*f)(void), size_t most)
{
    size_t used = 0;

    for (int round = 0; round < 3; round++) {
        size_t now;

        choose_sizes();
        by_malloc();
        now = run(f);
        used = now > used ? now : used;
        by_free();
        now = run(f);
        used = now > used ? now : used;
    }
    judge(what, used, most);
}

/*
 * A thread's first call, its last and its end. What the C library needs before
 * is painted over.
 */
static void repaint_below(void)
{
    char *end = (char *)__builtin_frame_address(0) - 256;

    for (volatile char *at = stack; (char *)at < end; at++)
        *at = (char)PAINT;
}
static void *thread_body(void *argument)
{
    repaint_below();
    if (argument) {
        free(malloc(100));
        free(malloc(20000));
    }
    return (void *)((char *)__builtin_frame_address(0) - stack);
}
static size_t of_thread(void *argument)
{
    pthread_attr_t attributes;
    pthread_t thread;
    void *frame = NULL;

    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, STACK);
    CHECK(pthread_create(&thread, &attributes, thread_body, argument) == 0, "a thread");
    pthread_join(thread, &frame);
    pthread_attr_destroy(&attributes);
    return (size_t)frame - (STACK - depth());
}

/* The handlers of fork in parent and child. The C library's own part is less than 1 KiB. */
static size_t *in_child;
static void by_fork(void)
{
    if (fork() == 0) {
        for (int i = 0; i < NR; i++)
            free(malloc(i * 50));
        *in_child = depth() - empty_depth;
        _exit(0);
    }
}

/* Another thread comes and goes with blocks of its own, so that others' slow paths meet it. */
static volatile int stops;
static void *neighbour(void *argument)
{
    uint64_t own = 12345;
    void *mine[64] = {0};

    while (!stops)
        for (int i = 0; i < 64; i++) {
            free(mine[i]);
            mine[i] = malloc(next_random(&own) >> 20 & 0x3fff);
            if (i == 63)
                usleep(200);
        }
    for (int i = 0; i < 64; i++)
        free(mine[i]);
    return argument;
}

/* The end of a process, with the report that `STACK_REPORT` names. */
static void by_exit(void)
{
    exit(0);
}

static void ends(int fd)
{
    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    choose_sizes();
    by_malloc();
    run(by_exit);
}

static void end_of_process(const char *report)
{
    char number[16];
    int status = 0, fd = memfd_create("stack", 0);
    char *own = stack;
    pid_t child;

    CHECK(fd >= 0 && ftruncate(fd, STACK) == 0, "shared memory");
    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    snprintf(number, sizeof number, "%d", fd);
    child = fork();
    if (child == 0) {
        if (report)
            setenv("SLABYARD_REPORT", report, 1);
        execl("/proc/self/exe", "stack", number, (char *)NULL);
        _exit(97);
    }
    waitpid(child, &status, 0);
    CHECK(status == 0, "the child that ends: %#x", status);
    judge(report ? "exit with report" : "exit", depth() - empty_depth, statistics_most);
    munmap(stack, STACK);
    stack = own;
    close(fd);
}

/* Until memory is refused, which drains all. */
static void *many[1 << 16];
static void by_refused(void)
{
    for (int i = 0; i < 1 << 16 && (many[i] = malloc(4000 + i % 7 * 30000)); i++)
        ;
}

int main(int argc, char **argv)
{
    pthread_t other;
    int err;

    prints = getenv("STACK_PRINTS");
    if (getenv("STACK_SLOW"))
        slow_most = (size_t)atoi(getenv("STACK_SLOW"));
    if (argc > 1)
        ends(atoi(argv[1]));
    judge("first call", first_depth, slow_most);
    CHECK(pthread_create(&other, NULL, neighbour, NULL) == 0, "a neighbour");
    pair("malloc", by_malloc, "free", by_free);
    pair("calloc", by_calloc, "free after calloc", by_free);
    pair("posix_memalign", by_memalign, "free of aligned", by_free);
    pair("malloc first", by_malloc, "realloc", by_realloc);
    by_free();
    new_ = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "_Znwm");
    delete_ = (void (*)(void *))dlsym(RTLD_DEFAULT, "_ZdlPv");
    delete_sized = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "_ZdlPvm");
    if (new_ && delete_ && delete_sized)
        pair("new", by_new, "delete", by_delete);
    one("malloc_usable_size", by_usable_size, slow_most);
    one("malloc_trim", by_trim, statistics_most);
    one("mallinfo", by_mallinfo, statistics_most);
    one("mallinfo2", by_mallinfo2, statistics_most);
    sink = fopen("/dev/null", "w");
    one("malloc_info", by_info, statistics_most);
    fflush(stdout);
    err = dup(2);
    dup2(fileno(sink), 2);
    one("malloc_stats", by_stats, statistics_most);
    dup2(err, 2);
    for (int i = 0; i < 4; i++) {
        judge("idle thread", of_thread(NULL), slow_most);
        judge("thread", of_thread(stack), slow_most);
    }
    in_child = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 4; i++) {
        judge("fork", run(by_fork), slow_most + 1024);
        wait(NULL);
        judge("fork's child", *in_child, slow_most + 1024);
    }
    end_of_process(NULL);
    end_of_process(getenv("STACK_REPORT"));
    if (getenv("STACK_PLANTED"))
        one("planted", planted, slow_most);
    stops = 1;
    pthread_join(other, NULL);
    {
        struct rlimit limit = {96 << 20, RLIM_INFINITY};

        setrlimit(RLIMIT_AS, &limit);
        judge("refused", run(by_refused), slow_most);
    }
    return nr_failed != 0;
}
