/*
 * The ends of a process: frees in exit handlers and destructors, while other
 * threads still run, and ends without any of them.
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static void *for_destructor, *for_handler, *large;
static int expected_code = -1;

static void at_exit(void)
{
    CHECK(intact(for_handler, 700, 2), "the exit handler's block");
    free(for_handler);
    for_handler = realloc(NULL, 4000);
    free(for_handler);
    free(large);
}

/* Runs last of all: allocates too, as programs do. */
__attribute__((destructor(101))) static void at_the_end(void)
{
    void *p = malloc(3000);

    if (!for_destructor)
        return;
    CHECK(intact(for_destructor, 333, 3), "the destructor's block");
    free(for_destructor);
    for_destructor = NULL;
    CHECK(p != NULL, "no memory in a destructor");
    free(p);
    free(malloc(100000));
    /* An exit code cannot be changed here any more, except so. */
    if (nr_failed || expected_code < 0)
        _exit(98);
}

static void *busy(void *arg)
{
    uint64_t random = (uintptr_t)arg + 1;

    for (;;) {
        void *p[30];
        int n;

        for (n = 0; n < 30; n++) {
            size_t size = next_random(&random) % 3000;

            p[n] = malloc(size);
            if (p[n])
                memset(p[n], 0xee, size);
        }
        for (n = 0; n < 30; n++)
            free(p[n]);
        free(malloc(random % 200000));
    }
    return NULL;
}

static void busy_threads(void)
{
    pthread_t thread;
    int n;

    for (n = 0; n < 4; n++)
        if (pthread_create(&thread, NULL, busy, (void *)(uintptr_t)n))
            _exit(97);
    usleep(2000);
}

static void *exit_from_thread(void *arg)
{
    (void)arg;
    free(malloc(20));
    exit(expected_code);
}

static void *join_main(void *arg)
{
    pthread_join(*(pthread_t *)arg, NULL);
    free(malloc(20));
    exit(expected_code);
}

static void by_return(void) { exit(expected_code); }
static void by_underscore(void) { _exit(expected_code); }
static void by_quick_exit(void) { quick_exit(expected_code); }

static void among_threads(void)
{
    busy_threads();
    exit(expected_code);
}

static void underscore_among_threads(void)
{
    busy_threads();
    _exit(expected_code);
}

static void by_thread(void)
{
    pthread_t thread;

    busy_threads();
    pthread_create(&thread, NULL, exit_from_thread, NULL);
    pause();
}

/* main ends by pthread_exit, another thread ends the process. */
static void main_first(void)
{
    static pthread_t self;
    pthread_t thread;

    self = pthread_self();
    pthread_create(&thread, NULL, join_main, &self);
    pthread_exit(NULL);
}

static void with_exec(void)
{
    busy_threads();
    execl("/bin/sh", "sh", "-c", "exit $0", "30", (char *)NULL);
    _exit(96);
}

static void by_kill(void)
{
    busy_threads();
    kill(getpid(), SIGKILL);
}

static const struct {
    const char *name;
    void (*end)(void);
} ends[] = {
    { "exit", by_return },
    { "_exit", by_underscore },
    { "quick_exit", by_quick_exit },
    { "exit among threads", among_threads },
    { "_exit among threads", underscore_among_threads },
    { "exit from a thread", by_thread },
    { "main's thread ends first", main_first },
    { "exec among threads", with_exec },
    { "SIGKILL", by_kill },
};

int main(void)
{
    int round, status;
    size_t n;

    for (round = 0; round < 20; round++) {
        for (n = 0; n < sizeof ends / sizeof ends[0]; n++) {
            pid_t pid = fork();

            if (pid == 0) {
                alarm(120 * slower());
                expected_code = 30;
                for_destructor = malloc(333);
                for_handler = malloc(700);
                large = malloc(2 << 20);
                fill(for_destructor, 333, 3);
                fill(for_handler, 700, 2);
                atexit(at_exit);
                at_quick_exit(at_exit);
                ends[n].end();
                _exit(95);
            }
            if (pid < 0 || waitpid(pid, &status, 0) != pid)
                status = -1;
            if (ends[n].end == by_kill)
                CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%#x", (unsigned)status);
            else
                CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 30, "%s: status %#x",
                      ends[n].name, (unsigned)status);
        }
    }
    return finish("exit");
}
