/* handed: objects that one thread allocates and another frees, and neighbours that two threads write.
 *
 *   handed --list          NAME THREADS WORDS..., a line a load
 *   handed NAME [--scale F] [--threads N] [--pinned 0|1] [--batch N] [--stages N] [--mixed 0|1]
 *          [--rest MS] [--plant lost|shared|apart]
 *
 * runs one, and says `ops N` and what the heads of pass.c and share.c have beside it. What is not
 * said is the load's own; a defect can be planted, which is to be found. Exits with 1 and words if
 * an object is not as it was left, and with 2 if it was asked wrongly. Nothing but the load calls
 * malloc: no stream of stdio is used.
 */
#include "handed.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#define ONE .run = pass_on, .batch = 1, .stages = 2
#define BATCH .run = pass_on, .batch = 32, .stages = 2, .mixed = 1
#define RING .run = pass_on, .batch = 8, .stages = 8, .mixed = 1
#define LINES .run = share_lines, .pinned = 1

static const struct order orders[] = {
    {"one_2_pinned", "one by one, 24 to 256 bytes", ONE, .threads = 2, .pinned = 1},
    {"one_2", "one by one, 24 to 256 bytes", ONE, .threads = 2},
    {"one_8_pinned", "one by one, 24 to 256 bytes", ONE, .threads = 8, .pinned = 1},
    {"one_8", "one by one, 24 to 256 bytes", ONE, .threads = 8},
    {"one_64_pinned", "one by one, 24 to 256 bytes", ONE, .threads = 64, .pinned = 1},
    {"one_64", "one by one, 24 to 256 bytes", ONE, .threads = 64},
    {"batch_2_pinned", "32 at a time, 24 bytes to 8 KiB", BATCH, .threads = 2, .pinned = 1},
    {"batch_2", "32 at a time, 24 bytes to 8 KiB", BATCH, .threads = 2},
    {"batch_8_pinned", "32 at a time, 24 bytes to 8 KiB", BATCH, .threads = 8, .pinned = 1},
    {"batch_8", "32 at a time, 24 bytes to 8 KiB", BATCH, .threads = 8},
    {"batch_64_pinned", "32 at a time, 24 bytes to 8 KiB", BATCH, .threads = 64, .pinned = 1},
    {"batch_64", "32 at a time, 24 bytes to 8 KiB", BATCH, .threads = 64},
    {"ring_8_pinned", "a ring of eight, 24 bytes to 8 KiB", RING, .threads = 8, .pinned = 1},
    {"ring_8", "a ring of eight, 24 bytes to 8 KiB", RING, .threads = 8},
    {"ring_64_pinned", "rings of eight, 24 bytes to 8 KiB", RING, .threads = 64, .pinned = 1},
    {"ring_64", "rings of eight, 24 bytes to 8 KiB", RING, .threads = 64},
    {"lines_active", "neighbours allocated in turn", LINES, .threads = 2, .stages = 1},
    {"lines_passive", "neighbours that another thread allocated", LINES, .threads = 2, .stages = 2},
    {"lines_passive_8", "the same, of eight threads", LINES, .threads = 8, .stages = 2},
};
enum { ORDERS = sizeof orders / sizeof *orders };

_Noreturn static void misused(const char *problem, const char *word)
{
    dprintf(STDERR_FILENO,
            "handed: %s: %s\nusage: handed --list | handed NAME [--scale F] [--threads N] [--pinned "
            "0|1] [--batch N] [--stages N] [--mixed 0|1] [--rest MS] [--plant lost|shared|apart]\n",
            problem, word);
    exit(2);
}

static void set(struct order *order, const char *option, const char *value)
{
    const struct {
        const char *option;
        uint64_t *number, least, most;
    } numbers[] = {
        {"--threads", &order->threads, 1, MOST_THREADS}, {"--pinned", &order->pinned, 0, 1},
        {"--batch", &order->batch, 1, MOST_BATCH},       {"--stages", &order->stages, 1, MOST_THREADS},
        {"--mixed", &order->mixed, 0, 1},                {"--rest", &order->rest_ms, 1, 600000},
    };
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(numbers[i].option, option))
            continue;
        uint64_t *number = numbers[i].number;
        if (!parse_number(value, number) || *number < numbers[i].least || *number > numbers[i].most)
            misused(option, value);
        return;
    }
    bool passes = order->run == pass_on;
    if (!strcmp(option, "--plant") && !strcmp(value, "lost") && passes)
        order->plant = LOST;
    else if (!strcmp(option, "--plant") && !strcmp(value, "shared") && !passes)
        order->plant = SHARED;
    else if (!strcmp(option, "--plant") && !strcmp(value, "apart") && !passes)
        order->plant = APART;
    else if (strcmp(option, "--scale") || !parse_scale(value, &order->scale))
        misused(option, value);
}

static cpu_set_t cpus_at_start;

uint64_t count_cpus(void)
{
    return (uint64_t)CPU_COUNT(&cpus_at_start);
}

void pin(uint64_t nth)
{
    uint64_t left = nth % count_cpus();
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &cpus_at_start) || left-- > 0)
            continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (pthread_setaffinity_np(pthread_self(), sizeof one, &one))
            fail("no CPU %d", cpu);
        return;
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (int i = 0; i < ORDERS; i++)
            dprintf(STDOUT_FILENO, "%s %d %s\n", orders[i].name, (int)orders[i].threads,
                    orders[i].words);
        return 0;
    }
    if (argc < 2)
        misused("a load is missing", "NAME");
    int i = 0;
    while (i < ORDERS && strcmp(orders[i].name, argv[1]))
        i++;
    if (i == ORDERS)
        misused("no such load", argv[1]);
    struct order order = orders[i];
    order.scale = 1;
    for (char **word = argv + 2; *word; word += 2) {
        if (!word[1])
            misused("a value is missing after", *word);
        set(&order, *word, word[1]);
    }
    if (sched_getaffinity(0, sizeof cpus_at_start, &cpus_at_start))
        fail("its CPUs are unknown");
    order.run(&order);
    return 0;
}
