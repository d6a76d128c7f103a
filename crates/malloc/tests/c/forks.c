/*
 * Fork while other threads allocate: parent and child both go on, and both
 * yards are sound. Then chains of forks, and programs started in every way.
 */
#include "check.h"
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

enum { THREADS = 4, ROUNDS = 25, KEPT = 64 };

extern char **environ;

static int stop;
/* Seconds after which a child hangs. */
static unsigned patience = 60;
static uint64_t nr_steps[THREADS];

struct kept {
    void *p;
    size_t size;
    uint64_t seed;
};

static size_t random_size(uint64_t r)
{
    if (r % 500 == 0)
        return (r >> 20) % (2 << 20);
    return r % 30 == 0 ? (r >> 20) % 60000 : (r >> 20) % 1000;
}

/* One step of the load: a slot's block is checked and freed, or made. */
static void step(struct kept *slot, uint64_t r)
{
    slot += (r >> 8) % KEPT;
    if (slot->p) {
        CHECK(intact(slot->p, slot->size, slot->seed), "block of %zu", slot->size);
        free(slot->p);
        slot->p = NULL;
        return;
    }
    slot->size = random_size(r >> 5);
    slot->seed = r;
    slot->p = malloc(slot->size);
    if (!slot->p)
        abort();
    fill(slot->p, slot->size, r);
}

static void drop(struct kept *slots)
{
    int n;

    for (n = 0; n < KEPT; n++) {
        free(slots[n].p);
        slots[n].p = NULL;
    }
}

static void *load(void *arg)
{
    int me = (int)(uintptr_t)arg;
    struct kept slots[KEPT] = { 0 };
    uint64_t random = 1000003u * (unsigned)(me + 1);

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        step(slots, next_random(&random));
        __atomic_store_n(&nr_steps[me], nr_steps[me] + 1, __ATOMIC_RELAXED);
    }
    drop(slots);
    return NULL;
}

/* Waits for the child, and says how it ended if not well. */
static void expect_good_end(pid_t pid, const char *what)
{
    int status = -1;

    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        status = -1;
    CHECK(status == 0, "%s: status %#x", what, (unsigned)status);
}

static void *child_thread(void *arg)
{
    struct kept *slots = arg;
    uint64_t random = 55555;
    int n;

    for (n = 0; n < 300; n++)
        step(slots, next_random(&random));
    return NULL;
}

/* The life of a child: the memory of before is there, and the yard works. */
static void child(struct kept *slots, int round)
{
    uint64_t random = (unsigned)round + 1;
    pthread_t thread;
    int n;

    alarm(patience * slower());
    verify_yard("in the child, at once");
    for (n = 0; n < 500; n++)
        step(slots, next_random(&random));
    if (round % 10 == 0) {
        /* POSIX does not promise it, every program does it. */
        if (pthread_create(&thread, NULL, child_thread, slots) == 0)
            pthread_join(thread, NULL);
        malloc_trim(0);
    }
    drop(slots);
    verify_yard("in the child, at its end");
    _exit(nr_failed != 0);
}

static void while_threads_allocate(void)
{
    pthread_t thread[THREADS];
    struct kept slots[KEPT] = { 0 };
    uint64_t random = 99;
    uint64_t before, after;
    int n, i;

    for (n = 0; n < THREADS; n++)
        if (pthread_create(&thread[n], NULL, load, (void *)(uintptr_t)n))
            exit(2);
    for (n = 0; n < ROUNDS; n++) {
        pid_t pid;

        for (i = 0; i < 100; i++)
            step(slots, next_random(&random));
        errno = EXDEV;
        pid = fork();
        CHECK(pid < 0 || errno == EXDEV, "fork changes errno to %d", errno);
        if (pid == 0)
            child(slots, n);
        for (i = 0; i < 100; i++)
            step(slots, next_random(&random));
        expect_good_end(pid, "a forked child");
        if (nr_failed)
            break;
    }
    /* Each thread must still get on after all these forks. */
    for (n = 0; n < THREADS; n++) {
        before = __atomic_load_n(&nr_steps[n], __ATOMIC_RELAXED);
        for (i = 0; i < 20000; i++) {
            after = __atomic_load_n(&nr_steps[n], __ATOMIC_RELAXED);
            if (after != before)
                break;
            usleep(1000);
        }
        CHECK(after != before, "thread %d stands still", n);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (n = 0; n < THREADS; n++)
        pthread_join(thread[n], NULL);
    drop(slots);
    verify_yard("in the parent");
}

/* Several threads fork at the same time. */
static void *forker(void *arg)
{
    struct kept slots[KEPT] = { 0 };
    uint64_t random = (uintptr_t)arg + 7;
    int n, i;

    for (n = 0; n < 10; n++) {
        pid_t pid;

        for (i = 0; i < 50; i++)
            step(slots, next_random(&random));
        pid = fork();
        if (pid == 0)
            child(slots, n + 1);
        expect_good_end(pid, "a child of a thread");
    }
    drop(slots);
    return NULL;
}

static void from_many_threads(void)
{
    pthread_t thread[4];
    int n;

    for (n = 0; n < 4; n++)
        if (pthread_create(&thread[n], NULL, forker, (void *)(uintptr_t)n))
            exit(2);
    for (n = 0; n < 4; n++)
        pthread_join(thread[n], NULL);
}

/* Each child forks the next; each frees what the ones before it made. */
static void chain(void)
{
    enum { DEPTH = 25 };
    struct kept slots[KEPT] = { 0 };
    pid_t pid, first = getpid();
    uint64_t random = 4711;
    int depth, i;

    for (depth = 0; depth < DEPTH; depth++) {
        for (i = 0; i < 200; i++)
            step(slots, next_random(&random));
        fflush(NULL);
        pid = fork();
        if (pid != 0) {
            expect_good_end(pid, "a link of the chain");
            break;
        }
        alarm(120 * slower());
    }
    drop(slots);
    if (getpid() != first) {
        verify_yard("in the chain");
        _exit(nr_failed != 0);
    }
}

/* fork's handlers of the program itself may allocate. */
static void *from_prepare;

static void prepare(void)
{
    from_prepare = malloc(300);
}

static void after_fork(void)
{
    free(from_prepare);
    free(malloc(40000));
}

static void programs(void)
{
    char *const words[] = { "sh", "-c", "exit 0", NULL };
    char line[64] = "";
    FILE *stream;
    pid_t pid;
    int n, result;

    for (n = 0; n < 5; n++) {
        result = posix_spawn(&pid, "/bin/sh", NULL, NULL, words, environ);
        CHECK(result == 0, "posix_spawn: %s", strerror(result));
        expect_good_end(pid, "posix_spawn");

        pid = vfork();
        if (pid == 0) {
            execv("/bin/sh", words);
            _exit(127);
        }
        expect_good_end(pid, "vfork and exec");

        pid = fork();
        if (pid == 0) {
            free(malloc(1000));
            execv("/bin/sh", words);
            _exit(127);
        }
        expect_good_end(pid, "fork and exec");

        result = system("exit 3");
        CHECK(WIFEXITED(result) && WEXITSTATUS(result) == 3, "system: %#x", (unsigned)result);

        stream = popen("echo from the pipe", "r");
        CHECK(stream && fgets(line, sizeof line, stream), "popen gave nothing");
        CHECK(strcmp(line, "from the pipe\n") == 0, "popen gave %s", line);
        result = stream ? pclose(stream) : -1;
        CHECK(result == 0, "pclose: %#x", (unsigned)result);
        free(malloc(5000));
    }
}

int main(void)
{
    alarm(170 * slower());
    if (getenv("FORKS_PATIENCE"))
        patience = (unsigned)strtoul(getenv("FORKS_PATIENCE"), NULL, 10);
    chain();
    while_threads_allocate();
    from_many_threads();
    programs();
    pthread_atfork(prepare, after_fork, after_fork);
    chain();
    programs();
    return finish("forks");
}
