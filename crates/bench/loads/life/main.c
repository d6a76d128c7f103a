/* life: what programs do with memory, load by load.
 *
 *   life --list                          NAME THREADS WORDS..., a line a load
 *   life NAME [--scale F] [--seed N]     runs one, and says `ops N`
 *
 * It exits with 1 and words when an object was not as it was left or memory
 * was refused, and with 2 when it was asked wrongly. Loads that hold their
 * links in their objects may also die of a signal when these are spoiled.
 *
 * No stdio stream is used: nothing but the load calls malloc.
 */
#include "life.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define POINT_TO(name) &load_##name,
static const struct load *const loads[] = {EACH_LOAD(POINT_TO)};
enum { LOADS = sizeof loads / sizeof *loads };

static void list(int file)
{
    for (int i = 0; i < LOADS; i++)
        dprintf(file, "%s %d %s\n", loads[i]->name, loads[i]->threads, loads[i]->words);
}

_Noreturn static void misused(const char *problem, const char *word)
{
    dprintf(STDERR_FILENO,
            "life: %s: %s\nusage: life --list | life NAME [--scale F] [--seed N]\nloads:\n",
            problem, word);
    list(STDERR_FILENO);
    exit(2);
}

static struct job parse_job(char **words)
{
    struct job job = {.scale = 1, .seed = 1};
    for (; *words; words += 2) {
        if (strcmp(words[0], "--scale") && strcmp(words[0], "--seed"))
            misused("unknown option", words[0]);
        if (!words[1])
            misused("a number is missing after", words[0]);
        bool scales = !strcmp(words[0], "--scale");
        if (scales && !parse_scale(words[1], &job.scale))
            misused("a scale is a number above 0, at most 1000000", words[1]);
        if (!scales && !parse_number(words[1], &job.seed))
            misused("a seed is a whole number", words[1]);
    }
    return job;
}

static const struct load *find(const char *name)
{
    for (int i = 0; i < LOADS; i++)
        if (!strcmp(loads[i]->name, name))
            return loads[i];
    misused("no such load", name);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        misused("a load is missing", "NAME");
    if (!strcmp(argv[1], "--list") && argc == 2) {
        list(STDOUT_FILENO);
        return 0;
    }
    if (!strcmp(argv[1], "noop") && argc == 2)
        return noop();

    const struct load *load = find(argv[1]);
    struct job job = parse_job(argv + 2);
    dprintf(STDOUT_FILENO, "ops %" PRIu64 "\n", load->run(&job));
    return 0;
}
