/*
 * A debugger's single step gets through each function: the kernel aborts a
 * restartable sequence at each step, and what began it anew would never end.
 * (gdb steps so where a watchpoint is one of software.)
 */
#include "check.h"
#include <malloc.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

enum { MOST_STEPS = 3000000 };

static void (*free_sized_)(void *, size_t);

/* Sizes of small objects, of a run and of a mapping. */
static const size_t sizes[] = {1, 100, 100, 5000, 30000, 300000, 3000000};
enum { NR = sizeof sizes / sizeof *sizes };

static void *blocks[NR];

static void by_malloc(void)
{
    for (int i = 0; i < NR; i++)
        blocks[i] = malloc(sizes[i]);
}
static void by_free(void)
{
    for (int i = 0; i < NR; i++)
        free(blocks[i]);
}
static void by_calloc(void)
{
    for (int i = 0; i < 4; i++)
        blocks[i] = calloc(sizes[i], 1);
    for (int i = 4; i < NR; i++)
        blocks[i] = NULL;
}
static void by_realloc(void)
{
    for (int i = 0; i < 4; i++)
        blocks[i] = realloc(blocks[i], sizes[i] / 2 + 1);
}
static void by_memalign(void)
{
    for (int i = 0; i < NR; i++)
        if (posix_memalign(&blocks[i], 64, sizes[i]))
            blocks[i] = NULL;
}
static void by_free_sized(void)
{
    for (int i = 0; i < NR; i++)
        if (free_sized_)
            free_sized_(blocks[i], sizes[i]);
        else
            free(blocks[i]);
}

/* A pass over all that lies idle. Those that a clock brings have no end where each step takes as
   long as a thousand: who runs this says that none is due. */
static void by_trim(void)
{
    malloc_trim(0);
}

static void (*const stages[])(void) = {
    by_malloc, by_free, by_calloc, by_realloc, by_free, by_malloc, by_free_sized, by_memalign, by_free, by_trim,
};
enum { NR_STAGES = sizeof stages / sizeof *stages };

static void stepped(void)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(3);
    for (int i = 0; i < NR_STAGES; i++) {
        raise(SIGUSR1);
        stages[i]();
        raise(SIGUSR2);
    }
    _exit(0);
}

int main(void)
{
    int status, stage = -1, steps = 0;
    pid_t child;

    free_sized_ = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    by_malloc();
    by_free();
    child = fork();
    if (child == 0)
        stepped();
    for (;;) {
        int signal;

        if (waitpid(child, &status, 0) != child)
            break;
        if (!WIFSTOPPED(status))
            break;
        signal = WSTOPSIG(status);
        if (signal == SIGUSR1) {
            stage++;
            steps = 0;
        }
        if (signal == SIGUSR2) {
            if (getenv("STEPS_PRINTS"))
                printf("stage %d: %d steps\n", stage, steps);
            ptrace(PTRACE_CONT, child, NULL, NULL);
            continue;
        }
        CHECK(signal == SIGUSR1 || signal == SIGTRAP, "stage %d: signal %d", stage, signal);
        if (++steps > MOST_STEPS || nr_failed) {
            CHECK(0, "stage %d does not end in %d steps", stage, steps);
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return 1;
        }
        ptrace(PTRACE_SINGLESTEP, child, NULL, NULL);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3) {
        printf("skipped: no tracing here\n");
        return 0;
    }
    CHECK(status == 0, "the child that is stepped through: %#x", status);
    return nr_failed != 0;
}
