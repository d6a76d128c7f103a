// What `ci/pressure` puts under a limit.
//   pressure PARKED_MIB LIVE_MIB GROW_MIB MIB_PER_S [closes|forks|pauses|sinks MIB SECONDS]
// It keeps some memory live in malloc, frees some more, and then takes memory from the system
// itself, slowly, without a call of malloc: only the watch can give back what is free. It says
// what is resident (MiB) at each point, and how long after the level passed it fell.
//   closes  closes all files but standard output first, as a daemon does
//   forks   the child of a fork parks and grows
//   pauses  sleeps for two seconds in place of growing
//   sinks   sleeps in place of growing until less than so many MiB are resident, so many seconds
//           at most
//   refused allocates until the system refuses, without a limit of its cgroup
//   leaves  the main thread ends alone, and the last thread ends the process
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 256 };

static long resident_mib(void) {
    char text[128];
    long pages = -1;
    int fd = open("/proc/self/statm", O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    sscanf(text, "%*d %ld", &pages);
    return pages * sysconf(_SC_PAGESIZE) >> 20;
}

static void tell(const char *what, long n) {
    char line[64];
    int length = snprintf(line, sizeof line, "%s %ld\n", what, n);
    if (write(1, line, length) != length) _exit(3);
}

static void pause_ns(long ns) {
    struct timespec left = {ns / 1000000000, ns % 1000000000};
    while (nanosleep(&left, &left) != 0) {}
}

static void *map(size_t bytes) {
    void *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) _exit(3);
    return at;
}

static void fill(char **all, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        all[i] = malloc(SIZE);
        if (!all[i]) _exit(3);
        memset(all[i], 1, SIZE);
    }
}

static void *outlive(void *none) {
    pause_ns(300000000);
    // Written by the process's end, which is this thread's.
    printf("last 1\n");
    return none;
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    size_t parked = ((size_t)atol(argv[1]) << 20) / SIZE, live = ((size_t)atol(argv[2]) << 20) / SIZE;
    long grow = atol(argv[3]), rate = atol(argv[4]);
    const char *how = argc > 5 ? argv[5] : "";
    if (!strcmp(how, "closes"))
        for (int fd = 0; fd < 1024; fd++)
            if (fd != 1) close(fd);
    if (!strcmp(how, "refused")) {
        struct rlimit limit = {1 << 30, 1 << 30};
        if (setrlimit(RLIMIT_AS, &limit) != 0) return 3;
        void *last = 0;
        for (void **at; (at = malloc(1 << 14)); last = at) *at = last;
        tell("refused", resident_mib());
        return 0;
    }
    pid_t child = strcmp(how, "forks") ? 0 : fork();
    if (child > 0) {
        int status;
        if (waitpid(child, &status, 0) != child) return 3;
        if (WIFSIGNALED(status)) raise(WTERMSIG(status));
        return WEXITSTATUS(status);
    }
    char **all = map((live + parked) * sizeof *all);
    fill(all, 0, live + parked);
    for (size_t i = live; i < live + parked; i++) free(all[i]);
    tell("parked", resident_mib());
    if (!strcmp(how, "pauses")) {
        pause_ns(2000000000);
        tell("paused", resident_mib());
        return 0;
    }
    if (!strcmp(how, "sinks")) {
        if (argc < 8) return 2;
        long below = atol(argv[6]), tries = atol(argv[7]) * 50;
        while (resident_mib() >= below && tries-- > 0) pause_ns(20000000);
        tell("paused", resident_mib());
        return 0;
    }
    if (!strcmp(how, "leaves")) {
        pthread_t thread;
        if (pthread_create(&thread, 0, outlive, 0) != 0) return 3;
        pthread_exit(0);
    }
    char *own = map((size_t)grow << 20);
    for (long i = 0; i < grow; i++) {
        memset(own + (i << 20), 1, 1 << 20);
        pause_ns(1000000000 / rate);
    }
    tell("grown", resident_mib());
    return 0;
}
