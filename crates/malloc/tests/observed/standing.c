/*
 * Stands still in a system call, in all of its threads, while another process has it shrink; then
 * says what the call returned: standing WHAT THREADS [with a filter of system calls].
 *
 * A child, which shares nothing but what is said here, waits for a line on the standard input and
 * ends the calls. Nothing is printed and nothing allocated between "ready" and that end.
 */
#include "../c/check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#if defined(__x86_64__)
#include "registers_x86_64.h"
#elif defined(__aarch64__)
#include "registers_aarch64.h"
#endif

enum { OBJECTS = 40000, MOST_THREADS = 16, TIMED_MS = 1500, HANGS_S = 170 };

static const char *what;
static int threads;
static pid_t child, parent;
static int ends[2], listening;
static volatile sig_atomic_t nr_signals;

static struct shared {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int is_over;
} *shared;

static int is(const char *name)
{
    return strcmp(what, name) == 0;
}

static void count_signal(int number)
{
    (void)number;
    nr_signals++;
}

static struct sockaddr_un address(void)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };

    snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "slabyard-standing-%d", parent);
    return at;
}

/* In the child: ends the calls of so many threads. */
static void end_calls(void)
{
    struct sockaddr_un at = address();
    int n, fd;

    for (n = 0; n < threads; n++) {
        if (is("accept")) {
            fd = socket(AF_UNIX, SOCK_STREAM, 0);
            if (connect(fd, (struct sockaddr *)&at, sizeof at))
                abort();
        } else if (is("sigwait")) {
            sigqueue(parent, SIGRTMIN, (union sigval){ 0 });
        } else if (is("pause")) {
            kill(parent, SIGUSR1);
        } else if (is("semop")) {
            struct sembuf up = { .sem_op = 1 };

            if (semop(listening, &up, 1))
                abort();
        } else if (write(ends[1], "x", 1) != 1) {
            abort();
        }
    }
    pthread_mutex_lock(&shared->lock);
    shared->is_over = 1;
    pthread_cond_broadcast(&shared->changed);
    pthread_mutex_unlock(&shared->lock);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void wait_for_condition(int is_timed)
{
    struct timespec until;
    int result = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += TIMED_MS / 1000;
    until.tv_nsec += TIMED_MS % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&shared->lock);
    while (!shared->is_over && result == 0)
        result = is_timed ? pthread_cond_timedwait(&shared->changed, &shared->lock, &until)
                          : pthread_cond_wait(&shared->changed, &shared->lock);
    pthread_mutex_unlock(&shared->lock);
    CHECK(result == (is_timed ? ETIMEDOUT : 0), "a condition: %d", result);
}

static void stand(void)
{
    struct timespec time = { TIMED_MS / 1000, TIMED_MS % 1000 * 1000000L }, left = { 7, 7 };
    struct timeval micros = { TIMED_MS / 1000, TIMED_MS % 1000 * 1000 };
    struct pollfd readable = { .fd = ends[0], .events = POLLIN };
    struct epoll_event event = { .events = EPOLLIN };
    sigset_t one;
    fd_set set;
    siginfo_t info;
    char byte;
    int fd, result, is_timed = strstr(what, "-timed") != NULL;
    double began = now();

    if (is("read"))
        CHECK(read(ends[0], &byte, 1) == 1, "read: error %d", errno);
    else if (is("recv"))
        CHECK(recv(ends[0], &byte, 1, 0) == 1, "recv: error %d", errno);
    else if (is("registers"))
        read_with_registers(ends[0]);
    else if (is("accept"))
        CHECK(accept(listening, NULL, NULL) >= 0, "accept: error %d", errno);
    else if (is("nanosleep-timed"))
        CHECK(nanosleep(&time, &left) == 0, "nanosleep: error %d", errno);
    else if (is("raw-nanosleep-timed"))
        CHECK(syscall(SYS_nanosleep, &time, &left) == 0, "nanosleep: error %d", errno);
    else if (is("condition") || is("condition-timed"))
        wait_for_condition(is_timed);
    else if (is("poll") || is("poll-timed")) {
        result = poll(&readable, 1, is_timed ? TIMED_MS : -1);
        CHECK(result == !is_timed, "poll: %d, error %d", result, errno);
    } else if (is("ppoll-timed")) {
        result = ppoll(&readable, 1, &time, NULL);
        CHECK(result == 0, "ppoll: %d, error %d", result, errno);
    } else if (is("select") || is("select-timed")) {
        FD_ZERO(&set);
        FD_SET(ends[0], &set);
        result = select(ends[0] + 1, &set, NULL, NULL, is_timed ? &micros : NULL);
        CHECK(result == !is_timed, "select: %d, error %d", result, errno);
    } else if (is("epoll") || is("epoll-timed") || is("epoll_pwait")) {
        fd = epoll_create1(0);
        epoll_ctl(fd, EPOLL_CTL_ADD, ends[0], &event);
        result = is("epoll_pwait") ? epoll_pwait(fd, &event, 1, -1, NULL)
                                   : epoll_wait(fd, &event, 1, is_timed ? TIMED_MS : -1);
        CHECK(result == !is_timed, "epoll_wait: %d, error %d", result, errno);
    } else if (is("wait"))
        CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0, "waitid: error %d", errno);
    else if (is("sigwait")) {
        sigemptyset(&one);
        sigaddset(&one, SIGRTMIN);
        CHECK(sigwaitinfo(&one, &info) == SIGRTMIN, "sigwaitinfo: error %d", errno);
    } else if (is("pause")) {
        CHECK(pause() == -1 && errno == EINTR && nr_signals == 1, "pause: %d", (int)nr_signals);
    } else if (is("semop")) {
        struct sembuf down = { .sem_op = -1 };

        CHECK(semop(listening, &down, 1) == 0, "semop: error %d", errno);
    } else
        abort();
    if (is_timed)
        CHECK(now() - began >= TIMED_MS / 1000.0, "%s: after %f s", what, now() - began);
}

static void *thread(void *unused)
{
    stack_t alternate = { .ss_sp = malloc(SIGSTKSZ), .ss_size = SIGSTKSZ }, found;
    sigset_t blocked, mask;

    sigaltstack(&alternate, NULL);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMIN);
    sigaddset(&blocked, SIGHUP);
    pthread_sigmask(SIG_SETMASK, &blocked, NULL);
    errno = 77;
    stand();
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    CHECK(sigismember(&mask, SIGHUP) && sigismember(&mask, SIGRTMIN) && !sigismember(&mask, SIGTERM),
          "the mask of signals");
    sigaltstack(NULL, &found);
    CHECK(found.ss_sp == alternate.ss_sp && found.ss_size == alternate.ss_size && !found.ss_flags,
          "the alternate stack");
    return unused;
}

/* A filter that kills who makes the call by which sleeps go on. */
static void filter_calls(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_restart_syscall, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = sizeof rules / sizeof *rules, .filter = rules };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        abort();
}

static void use_memory(void)
{
    void **objects = mmap(NULL, OBJECTS * sizeof *objects, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t n;

    for (n = 0; n < OBJECTS; n++)
        objects[n] = memset(malloc(16 + n % 500), 1, 16 + n % 500);
    for (n = 0; n < OBJECTS; n++)
        free(objects[n]);
    munmap(objects, OBJECTS * sizeof *objects);
}

int main(int argc, char **argv)
{
    pthread_mutexattr_t mutex_shared;
    pthread_condattr_t cond_shared;
    pthread_t other[MOST_THREADS];
    struct sockaddr_un at;
    sigset_t blocked;
    char line[8];
    int n;

    what = argv[1];
    threads = argc > 2 ? atoi(argv[2]) : 1;
    alarm(HANGS_S * slower());
    parent = getpid();
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_init(&mutex_shared);
    pthread_mutexattr_setpshared(&mutex_shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->lock, &mutex_shared);
    pthread_condattr_init(&cond_shared);
    pthread_condattr_setpshared(&cond_shared, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&shared->changed, &cond_shared);
    signal(SIGUSR1, count_signal);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    at = address();
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends))
        abort();
    if (is("semop")) {
        listening = semget(IPC_PRIVATE, 1, 0600);
    } else {
        listening = socket(AF_UNIX, SOCK_STREAM, 0);
        if (bind(listening, (struct sockaddr *)&at, sizeof at) || listen(listening, 64))
            abort();
    }
    child = fork();
    if (child == 0) {
        if (!fgets(line, sizeof line, stdin))
            _exit(1);
        if (!strstr(what, "-timed"))
            end_calls();
        _exit(0);
    }
    for (n = 1; n < threads; n++)
        pthread_create(&other[n], NULL, thread, NULL);
    use_memory();
    if (argc > 3)
        filter_calls();
    if (write(1, "ready\n", 6) != 6)
        abort();
    thread(NULL);
    for (n = 1; n < threads; n++)
        pthread_join(other[n], NULL);
    if (is("semop"))
        semctl(listening, 0, IPC_RMID);
    use_memory();
    if (nr_failed == 0 && write(1, "done\n", 5) != 5)
        abort();
    return finish("standing");
}
