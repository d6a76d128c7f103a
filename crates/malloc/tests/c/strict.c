/*
 * Strict mode (seccomp(2)): from then on a process may read, write, return from a signal handler and
 * end, and any other system call kills it. A steady load of small objects needs none. It is entered
 * by each of three calls.
 */
#include "check.h"
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { NR = 3000, TURNS = 600 };

static void *object[NR];
static uint64_t state = 88172645463325252u;

static void turn(void)
{
    size_t n, at, size;

    for (n = 0; n < NR; n++) {
        at = next_random(&state) % NR;
        size = 16 + at % 200;
        free(object[at]);
        if (!(object[at] = malloc(size)))
            syscall(SYS_exit, 3);
        memset(object[at], (int)at, size);
    }
}

static void steady(int way)
{
    void *burst[4000];
    size_t n;
    int failed;

    for (n = 0; n < 20; n++)
        turn();
    /* What is free and dirty would go back to the system. */
    for (n = 0; n < 4000; n++)
        if ((burst[n] = malloc(2000)))
            memset(burst[n], 1, 2000);
    for (n = 0; n < 4000; n++)
        free(burst[n]);
    if (way == 0)
        failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    else if (way == 1)
        failed = (int)syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    else
        failed = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL);
    if (failed)
        _exit(77);
    for (n = 0; n < TURNS; n++)
        turn();
    /* exit_group is not allowed. */
    syscall(SYS_exit, 0);
}

int main(void)
{
    int way, status;
    pid_t pid;

    for (way = 0; way < 3; way++) {
        pid = fork();
        status = -1;
        if (pid == 0)
            steady(way);
        CHECK(waitpid(pid, &status, 0) == pid, "a child");
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
            printf("skipped: there is no strict mode here\n");
            break;
        }
        CHECK(status == 0, "way %d: %#x", way, (unsigned)status);
    }
    return finish("strict");
}
