/*
 * A child that shares its parent's memory, as that of vfork does, is killed in the midst of an
 * allocation: it stays counted in a slow path that nobody will leave. A check of the yard waits for
 * it, but not for ever, and says that it cannot look. Then all goes on; and when the thread whose
 * data the child had used allocates again, what the child left is repaired.
 *
 * The child forbids itself the system call by which memory is mapped, and is killed by it. It does
 * so by instructions of its own: the library would keep from such calls in its parent, too.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include "check.h"

enum { NR_BLOCKS = 1000, CANNOT = 2, LONGEST_SECONDS = 100 };

static sem_t killed, go_on;
static int status;

static long call(long number, long a, long b, long c)
{
#if defined(__x86_64__)
    long result;
    register long fourth __asm__("r10") = 0, fifth __asm__("r8") = 0;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long result __asm__("x0") = a, second __asm__("x1") = b, third __asm__("x2") = c;
    register long fourth __asm__("x3") = 0, fifth __asm__("x4") = 0, which __asm__("x8") = number;

    __asm__ volatile("svc 0"
                     : "+r"(result)
                     : "r"(which), "r"(second), "r"(third), "r"(fourth), "r"(fifth)
                     : "memory");
    return result;
#endif
}

/* Does not come back. */
static __attribute__((noinline)) void die_in_a_slow_path(void)
{
    static struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    static struct sock_fprog program = {sizeof filter / sizeof *filter, filter};

    if (call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0) != 0 ||
        call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program) != 0)
        _exit(98);
    opaque(malloc((size_t)64 << 20));
    _exit(99);
}

static void *parent_of_child(void *argument)
{
    pid_t child = vfork();

    if (child == 0)
        die_in_a_slow_path();
    CHECK(child > 0, "no child: %d", errno);
    CHECK(waitpid(child, &status, 0) == child, "no end: %d", errno);
    sem_post(&killed);
    sem_wait(&go_on);
    return opaque(malloc(100000));
}

/* Calls of the slow paths, of each kind. */
static void exchange(void)
{
    static void *blocks[NR_BLOCKS];
    size_t i, size;

    for (i = 0; i < NR_BLOCKS; i++) {
        size = i % 10 ? i + 1 : i * 500;
        blocks[i] = malloc(size);
        CHECK(blocks[i], "no memory");
        fill(blocks[i], size, i);
    }
    for (i = 0; i < NR_BLOCKS; i++) {
        size = i % 10 ? i + 1 : i * 500;
        CHECK(intact(blocks[i], size, i), "block %zu", i);
        free(blocks[i]);
    }
}

int main(void)
{
    int (*verify)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "slabyard_verify");
    pthread_t thread;
    time_t begin;
    void *block;
    int found;

    exchange();
    sem_init(&killed, 0, 0);
    sem_init(&go_on, 0, 0);
    CHECK(pthread_create(&thread, NULL, parent_of_child, NULL) == 0, "no thread");
    sem_wait(&killed);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 98) {
        printf("skipped: no filter of system calls\n");
        return 0;
    }
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "the child ended with %x", status);
    exchange();
    begin = time(NULL);
    found = verify();
    CHECK(found == CANNOT, "a check beside a thread that does not leave: %d", found);
    CHECK(time(NULL) - begin < LONGEST_SECONDS, "it waited %ld s", (long)(time(NULL) - begin));
    exchange();
    sem_post(&go_on);
    pthread_join(thread, &block);
    CHECK(block, "no memory for the thread");
    free(block);
    exchange();
    return finish("killed");
}
