/*
 * starts ROUNDS LIBRARY...: how long /bin/true takes to start and end with each library preloaded,
 * beside none, in turns. A line for each library, in microseconds: the median of the differences
 * within a round, of wall time and of CPU time, and then the medians without a library.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

struct times {
    double wall, cpu;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static struct times start(const char *library)
{
    static char preload[4096], *arguments[] = { "true", NULL };
    char *environment[] = { library ? preload : NULL, NULL };
    struct rusage used;
    double begin = now();
    int status;
    pid_t pid;

    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library ? library : "");
    if (posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environment) ||
        wait4(pid, &status, 0, &used) != pid || status) {
        fprintf(stderr, "starts: /bin/true failed\n");
        exit(3);
    }
    return (struct times){ now() - begin,
                           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) };
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static double median(double *values, int nr)
{
    qsort(values, (size_t)nr, sizeof *values, by_value);
    return values[nr / 2];
}

int main(int count, char **arguments)
{
    int rounds = count > 2 ? atoi(arguments[1]) : 0, nr = count - 1;
    struct times *times;
    double *wall, *cpu;

    if (rounds < 1) {
        fprintf(stderr, "starts ROUNDS LIBRARY...\n");
        return 2;
    }
    times = calloc((size_t)(rounds * nr), sizeof *times);
    wall = calloc((size_t)rounds, sizeof *wall);
    cpu = calloc((size_t)rounds, sizeof *cpu);
    if (!times || !wall || !cpu)
        return 3;
    /* In each round another one is first. */
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < nr; i++) {
            int which = (i + round) % nr;

            times[round * nr + which] = start(which ? arguments[which + 1] : NULL);
        }
    for (int which = 1; which < nr; which++) {
        for (int round = 0; round < rounds; round++) {
            struct times *of = times + round * nr;

            wall[round] = of[which].wall - of[0].wall;
            cpu[round] = of[which].cpu - of[0].cpu;
        }
        printf("%s %.0f %.0f", arguments[which + 1], median(wall, rounds), median(cpu, rounds));
        for (int round = 0; round < rounds; round++) {
            wall[round] = times[round * nr].wall;
            cpu[round] = times[round * nr].cpu;
        }
        printf(" %.0f %.0f\n", median(wall, rounds), median(cpu, rounds));
    }
    return 0;
}
