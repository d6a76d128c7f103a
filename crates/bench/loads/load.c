/* The load program: one load, in one process, run in windows on request.
 *
 *   load NAME [CPU]...
 *
 * It says `ready OBJECT GLIBC VERSION` (the file that malloc comes from, the
 * C library's version, and what the allocator says of itself: its name and
 * version, or `-`), then obeys the lines of its standard input:
 *
 *   window NS WARM   run for WARM ns untimed, then for NS ns:
 *                    `window OPS NS SWITCHES`, where SWITCHES says how often
 *                    another process took a CPU from this one meanwhile
 *   cycles N         run N operations: `cycles OPS`
 *
 * and ends at the end of its input.
 * It uses no stdio streams: nothing but the load calls malloc.
 */
#define _GNU_SOURCE
#include "load.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CPUS = 8 };

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what)
{
    (void)!write(2, what, strlen(what));
    (void)!write(2, "\n", 1);
    _exit(3);
}

void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        die("load: sched_setaffinity failed");
}

uint16_t zipf_size(uint64_t *state)
{
    enum { STEPS = 64, SCALE = 1 << 20 };
    static uint32_t sums[STEPS];
    if (!sums[STEPS - 1]) {
        uint32_t sum = 0;
        for (int k = 0; k < STEPS; k++)
            sums[k] = sum += SCALE / (uint32_t)(k + 1);
    }
    uint32_t at = next_random(state) % sums[STEPS - 1];
    int k = 0;
    while (at >= sums[k])
        k++;
    return (uint16_t)(16 * (k + 1));
}

/* One line of standard input, without its end; false at the end of input. */
static bool read_line(char *line, size_t size)
{
    size_t used = 0;
    for (;;) {
        char c;
        ssize_t n = read(0, &c, 1);
        if (n <= 0)
            return false;
        if (c == '\n')
            break;
        if (used + 1 < size)
            line[used++] = c;
    }
    line[used] = 0;
    return true;
}

static void say(const char *line)
{
    if (write(1, line, strlen(line)) < 0)
        _exit(3);
}

/* Asks by the names of the allocators' own interfaces. */
static void own_version(char *text, size_t size)
{
    int (*mimalloc)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "mi_version");
    int (*jemalloc)(const char *, void *, size_t *, void *, size_t) =
        (int (*)(const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT, "mallctl");
    const char *(*tcmalloc)(int *, int *, const char **) =
        (const char *(*)(int *, int *, const char **))dlsym(RTLD_DEFAULT, "tc_version");
    const char *version = NULL;
    size_t length = sizeof version;
    snprintf(text, size, "-");
    if (mimalloc)
        snprintf(text, size, "mimalloc %d", mimalloc());
    else if (jemalloc && jemalloc("version", &version, &length, NULL, 0) == 0)
        snprintf(text, size, "jemalloc %s", version);
    else if (tcmalloc)
        snprintf(text, size, "%s", tcmalloc(NULL, NULL, NULL));
}

static void say_ready(void)
{
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, "malloc");
    const char *object = symbol && dladdr(symbol, &info) ? info.dli_fname : "?";
    char version[200], line[4500];
    own_version(version, sizeof version);
    snprintf(line, sizeof line, "ready\t%s\t%s\t%s\n", object, gnu_get_libc_version(), version);
    say(line);
}

/* Involuntary context switches of all threads, ever. */
static long switches(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

static void obey(const struct load *load, const char *line)
{
    uint64_t ns, warm, ops;
    char answer[80];
    if (sscanf(line, "window %" SCNu64 " %" SCNu64, &ns, &warm) == 2) {
        struct goal goal = {.deadline = now_ns() + warm};
        load->run(&goal);
        long before = switches();
        uint64_t start = now_ns();
        goal.deadline = start + ns;
        ops = load->run(&goal);
        uint64_t took = now_ns() - start;
        snprintf(answer, sizeof answer, "window %" PRIu64 " %" PRIu64 " %ld\n",
                 ops, took, switches() - before);
    } else if (sscanf(line, "cycles %" SCNu64, &ops) == 1 && ops) {
        struct goal goal = {.ops = ops};
        snprintf(answer, sizeof answer, "cycles %" PRIu64 "\n", load->run(&goal));
    } else {
        die("load: unknown request");
    }
    say(answer);
}

static const struct load *find(const char *name)
{
    const struct load *tables[] = {single_loads, thread_loads};
    for (int t = 0; t < 2; t++)
        for (const struct load *l = tables[t]; l->name; l++)
            if (strcmp(l->name, name) == 0)
                return l;
    die("load: no load of this name");
    return NULL;
}

int main(int argc, char **argv)
{
    int cpus[MAX_CPUS], nr_cpus = 0;
    char line[256];
    if (argc < 2)
        die("usage: load NAME [CPU]...");
    const struct load *load = find(argv[1]);
    for (int i = 2; i < argc && nr_cpus < MAX_CPUS; i++)
        cpus[nr_cpus++] = atoi(argv[i]);
    if (nr_cpus >= load->threads)
        pin(cpus[0]);
    if (load->start)
        load->start(cpus, nr_cpus);
    say_ready();
    while (read_line(line, sizeof line))
        obey(load, line);
    _exit(0);
}
