/*
 * A child that shares its parent's memory, or was made past the C library, allocates
 * while other threads of the parent do:
 *
 *   vforks HOW [children=60] [thread]
 *
 * HOW: vfork, clone (the memory is shared and the parent waits, as vfork), spawn
 * (posix_spawn), exec (vfork, memory, execve), copy (the memory is copied, by the
 * system call itself: no handler of fork runs). `thread`: another thread than the
 * first is the parent.
 */
#include "attack.h"
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>

enum { THREADS = 3, KEPT = 64, STACK = 256 * 1024 };

extern char **environ;

static int over;
/*
 * Each thread reads it while it allocates; who makes a copy writes it. A thread that takes a
 * mutex again at once can keep one that waits from it for minutes: a writer comes first here.
 */
static pthread_rwlock_t allocating = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static long nr_rounds[THREADS];
static void *kept_by_child[KEPT];

static size_t some_size(uint64_t *random)
{
    uint64_t r = next_random(random);

    return r % 40 == 0 ? 100000 + (r >> 20) % 300000 : r % 8 == 0 ? 1 + (r >> 20) % 20000 : 1 + (r >> 20) % 600;
}

/* Blocks are made, checked and freed; what is in `kept` before is freed, too. */
static void some_blocks(void **kept, uint64_t *random, int leave)
{
    size_t size[KEPT];
    uint64_t seed = next_random(random);
    int n;

    for (n = 0; n < KEPT; n++) {
        free(kept[n]);
        size[n] = some_size(random);
        kept[n] = n % 4 == 0 ? opaque(calloc(1, size[n])) : opaque(malloc(size[n]));
        CHECK(kept[n], "no memory for %zu bytes", size[n]);
        CHECK(n % 4 || all_zero(kept[n], size[n]), "calloc's %zu bytes are not zero", size[n]);
        fill(kept[n], size[n], seed + (unsigned)n);
    }
    for (n = 0; n < KEPT; n += 2) {
        void *p = opaque(realloc(kept[n], size[n] + 100));

        CHECK(p && intact(p, size[n], seed + (unsigned)n), "realloc of %zu bytes", size[n]);
        kept[n] = p;
    }
    for (n = 1; n < KEPT; n += 2)
        CHECK(intact(kept[n], size[n], seed + (unsigned)n), "%zu bytes at %p are another's",
              size[n], kept[n]);
    for (n = 0; n < KEPT && !leave; n++) {
        free(kept[n]);
        kept[n] = NULL;
    }
}

static void *work(void *argument)
{
    size_t me = (uintptr_t)argument;
    uint64_t random = me + 31;
    void *kept[KEPT] = { 0 };

    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        pthread_rwlock_rdlock(&allocating);
        some_blocks(kept, &random, 0);
        /* A trim is the allocator's work, too. */
        if (__atomic_add_fetch(&nr_rounds[me], 1, __ATOMIC_RELAXED) % 256 == 0)
            malloc_trim(0);
        pthread_rwlock_unlock(&allocating);
    }
    return NULL;
}

/*
 * The life of a child. What it leaves is the parent's: it is freed by the next
 * child, or by the parent, if they share the memory.
 */
static int live(void *argument)
{
    static uint64_t random = 99;
    int n;

    (void)argument;
    for (n = 0; n < 8; n++)
        some_blocks(kept_by_child, &random, 1);
    free(opaque(malloc(3 << 20)));
    return nr_failed != 0;
}

static void by_vfork(void)
{
    pid_t pid = vfork();

    if (pid == 0)
        _exit(live(NULL));
    expect_good_end(pid, "a child of vfork");
}

static void by_exec(void)
{
    static char *words[] = { "true", NULL };
    pid_t pid = vfork();

    if (pid == 0) {
        if (live(NULL) == 0)
            execv("/bin/true", words);
        _exit(1);
    }
    expect_good_end(pid, "a child of vfork that executes");
}

static void by_clone(void)
{
    static char *stack;
    pid_t pid;

    if (!stack)
        stack = malloc(STACK);
    pid = clone(live, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    expect_good_end(pid, "a child of clone");
}

static void by_spawn(void)
{
    char *words[] = { "true", NULL };
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 9, "/dev/null", 0, 0);
    CHECK(posix_spawn(&pid, "/bin/true", &actions, NULL, words, environ) == 0, "%s", "posix_spawn");
    expect_good_end(pid, "a child of posix_spawn");
    posix_spawn_file_actions_destroy(&actions);
}

/*
 * Only while no other thread allocates: else the child finds the C library's own
 * malloc locked for ever, and no allocator is told of the copy.
 */
static void by_copy(void)
{
    pid_t pid;

    pthread_rwlock_wrlock(&allocating);
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        alarm(50);
        _exit(live(NULL));
    }
    pthread_rwlock_unlock(&allocating);
    expect_good_end(pid, "a child that the system call made");
}

static const struct {
    const char *name;
    void (*call)(void);
} ways[] = {
    { "vfork", by_vfork }, { "exec", by_exec }, { "clone", by_clone },
    { "spawn", by_spawn }, { "copy", by_copy },
};

struct parent {
    void (*call)(void);
    long children;
};

static void *be_parent(void *argument)
{
    struct parent *parent = argument;
    uint64_t random = 7;
    void *kept[KEPT] = { 0 };
    long i, before;

    for (i = 0; i < parent->children && !__atomic_load_n(&nr_failed, __ATOMIC_RELAXED); i++) {
        before = __atomic_load_n(&nr_rounds[i % THREADS], __ATOMIC_RELAXED);
        while (i % 4 == 0 && __atomic_load_n(&nr_rounds[i % THREADS], __ATOMIC_RELAXED) == before)
            usleep(50);
        some_blocks(kept, &random, 1);
        parent->call();
    }
    for (i = 0; i < KEPT; i++) {
        free(kept[i]);
        free(kept_by_child[i]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct parent parent = { NULL, number_of(argv, "children", 60) };
    pthread_t threads[THREADS], thread;
    size_t n;

    for (n = 0; argc > 1 && n < sizeof ways / sizeof *ways; n++)
        if (strcmp(argv[1], ways[n].name) == 0)
            parent.call = ways[n].call;
    if (!parent.call)
        usage("vforks vfork|exec|clone|spawn|copy [children=N] [thread]");
    for (n = 0; n < THREADS; n++)
        if (pthread_create(&threads[n], NULL, work, (void *)(uintptr_t)n))
            not_possible("a thread");
    if (has_word(argv, "thread")) {
        if (pthread_create(&thread, NULL, be_parent, &parent))
            not_possible("a thread");
        pthread_join(thread, NULL);
    } else {
        be_parent(&parent);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
    return finish("vforks");
}
