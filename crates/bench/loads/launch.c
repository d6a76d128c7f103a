/* Runs a program to its end and tells what it took:
 *
 *   launch TIMEOUT_MS TICK_MS LIBRARY PROGRAM [ARG]...
 *
 * LIBRARY is preloaded into the program; `-` stands for none. The program
 * writes where this one writes; after its end this one adds the line
 *
 *   launch WALL_US CPU_US PEAK_KIB FAULTS AREA MAPPINGS HOW NUMBER
 *
 * CPU_US, PEAK_KIB and FAULTS (minor page faults) are wait4's: of the program
 * and of its children that it waited for, the peak being the largest single
 * one. AREA is the integral of the program's own resident memory over time,
 * in KiB times milliseconds, from a sample each TICK_MS. MAPPINGS is the most
 * mappings that it had, from a sample in each ten ticks. HOW is `exit`,
 * `signal` or `timeout`.
 *
 * Why not the driver itself: a process inherits the peak of the memory that
 * its parent had when it was started (`ru_maxrss` is not reset by exec), and
 * this parent is smaller than any program that it starts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TICKS_A_COUNT = 10 };

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static void die(const char *what)
{
    fprintf(stderr, "launch: %s: %s\n", what, strerror(errno));
    exit(3);
}

static uint64_t us(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_usec;
}

/* Resident memory by `statm`, which takes no lock of the program's. */
static uint64_t resident_kib(int statm)
{
    char text[128];
    uint64_t size, resident;
    ssize_t n = pread(statm, text, sizeof text - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = 0;
    if (sscanf(text, "%" SCNu64 " %" SCNu64, &size, &resident) != 2)
        return 0;
    return resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* Lines of `maps`; the file is opened each time, as it stays with the memory
 * that the process had when it was opened, which exec replaces. */
static uint64_t count_mappings(pid_t pid)
{
    static char text[1 << 16];
    uint64_t lines = 0;
    ssize_t n;
    snprintf(text, sizeof text, "/proc/%d/maps", (int)pid);
    int maps = open(text, O_RDONLY | O_CLOEXEC);
    if (maps < 0)
        return 0;
    while ((n = read(maps, text, sizeof text)) > 0)
        for (ssize_t i = 0; i < n; i++)
            lines += text[i] == '\n';
    close(maps);
    return lines;
}

static _Noreturn void become(pid_t parent, const char *library, char **program)
{
    /* Its own group, so that a timeout ends its children too; and no survivor
     * if the driver is interrupted. */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    if (strcmp(library, "-") != 0)
        setenv("LD_PRELOAD", library, 1);
    execv(program[0], program);
    fprintf(stderr, "launch: %s: %s\n", program[0], strerror(errno));
    _exit(127);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fputs("usage: launch TIMEOUT_MS TICK_MS LIBRARY PROGRAM [ARG]...\n", stderr);
        return 2;
    }
    uint64_t timeout = strtoull(argv[1], NULL, 10) * 1000;
    uint64_t tick = strtoull(argv[2], NULL, 10) * 1000;
    pid_t parent = getpid();

    uint64_t start = now_us();
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0)
        become(parent, argv[3], argv + 4);

    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    if (process < 0)
        die("pidfd_open");
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    int statm = open(path, O_RDONLY | O_CLOEXEC);
    if (statm < 0)
        die(path);

    uint64_t area = 0, before = 0, last = start, end, ticks = 0, mappings = 0;
    bool late = false;
    for (;;) {
        struct pollfd ended = {.fd = process, .events = POLLIN};
        /* The first one early, for programs that end before a tick. */
        uint64_t next = last == start && tick > 1000 ? 1000 : tick;
        struct timespec wait = {.tv_nsec = (long)(next % 1000000) * 1000,
                                .tv_sec = (time_t)(next / 1000000)};
        int n = ppoll(&ended, 1, &wait, NULL);
        end = now_us();
        if (n > 0) {
            area += before * (end - last) / 1000;
            break;
        }
        if (n < 0 && errno != EINTR)
            die("ppoll");
        /* The trapezoid of two samples; the last one holds to the end. */
        uint64_t resident = resident_kib(statm);
        area += (before + resident) / 2 * (end - last) / 1000;
        before = resident;
        last = end;
        if (ticks++ % TICKS_A_COUNT == 0) {
            uint64_t now = count_mappings(pid);
            mappings = now > mappings ? now : mappings;
        }
        if (!late && end - start > timeout) {
            late = true;
            kill(-pid, SIGKILL);
        }
    }

    int status;
    struct rusage used;
    if (wait4(pid, &status, 0, &used) != pid)
        die("wait4");
    bool exited = WIFEXITED(status);
    printf("launch %" PRIu64 " %" PRIu64 " %ld %ld %" PRIu64 " %" PRIu64 " %s %d\n",
           end - start, us(used.ru_utime) + us(used.ru_stime), used.ru_maxrss,
           used.ru_minflt, area, mappings, late ? "timeout" : exited ? "exit" : "signal",
           exited ? WEXITSTATUS(status) : WTERMSIG(status));
    return 0;
}
