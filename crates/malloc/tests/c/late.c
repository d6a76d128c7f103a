/*
 * A program whose first allocation comes late: in the child of a fork, or after a filter of system
 * calls that kills the process at those of the library's start. The parent allocates at last.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "check.h"

enum { NR_BLOCKS = 300, STEP = 97, BY_PRCTL = 1, BY_SYSCALL };

#define KILL(number)                                      \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),  \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

static void forbid(int way)
{
    static struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_open
        KILL(SYS_open),
#endif
        KILL(SYS_openat), KILL(SYS_membarrier), KILL(SYS_sched_getaffinity), KILL(SYS_prlimit64),
        KILL(SYS_rseq),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    static struct sock_fprog program = {sizeof filter / sizeof *filter, filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        _exit(90);
    if (way == BY_PRCTL && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(91);
    if (way == BY_SYSCALL && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        _exit(92);
}

static void allocate(void)
{
    static unsigned char *blocks[NR_BLOCKS];
    size_t i, size;

    for (i = 0; i < NR_BLOCKS; i++) {
        size = i * STEP + 1;
        blocks[i] = malloc(size);
        CHECK(blocks[i], "no memory for %zu", size);
        if (blocks[i])
            blocks[i][0] = blocks[i][size - 1] = (unsigned char)i;
    }
    for (i = 0; i < NR_BLOCKS; i++) {
        CHECK(blocks[i] && blocks[i][0] == (unsigned char)i, "block %zu changed", i);
        free(blocks[i]);
    }
}

static void in_child(int way)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        if (way)
            forbid(way);
        allocate();
        _exit(nr_failed != 0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child, "no child: %d", errno);
    CHECK(status == 0, "the child of way %d ends with %#x", way, status);
}

int main(void)
{
    in_child(0);
    in_child(BY_PRCTL);
    in_child(BY_SYSCALL);
    allocate();
    in_child(BY_PRCTL);
    return nr_failed != 0;
}
