/* kernel: what kernel developers measure slab allocators with, as programs
 * that call malloc.
 *
 *   kernel --list                   NAME THREADS WORDS..., a line a load
 *   kernel --settings NAME          SETTING USUAL LEAST MOST, a line a setting
 *   kernel NAME [SETTING=VALUE]... [--scale F] [--seed N] [--cpus N] [--hold live|ended]
 *          [--plant FAULT]
 *
 * runs one, and says `ops N`, `ns N` and, line by line, what the load's head
 * has beside these. The scale multiplies the setting that says how much is
 * done; of CPUs only the first N are used. `--hold` says `held` while the last tasks
 * of fork-bomb live, or when a load has freed all, and goes on when its standard input
 * ends. FAULT is `lose`, `spoil` or `keep`: the
 * self-check must find it.
 *
 * It exits with 1 and words when the self-check found something or the system
 * refused something, and with 2 when it was asked wrongly.
 *
 * No stdio stream is used: nothing but the load calls malloc.
 */
#include "kernel.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

extern const struct shape shape_messaging, shape_packets, shape_fork_bomb, shape_drain;
static const struct shape *const shapes[] = {&shape_messaging, &shape_packets, &shape_fork_bomb,
                                             &shape_drain};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void list(int file)
{
    for (int i = 0; i < SHAPES; i++)
        dprintf(file, "%s %d %s\n", shapes[i]->name, shapes[i]->threads, shapes[i]->words);
}

_Noreturn static void misused(const char *problem, const char *word)
{
    dprintf(STDERR_FILENO,
            "kernel: %s: %s\nusage: kernel --list | kernel NAME [SETTING=VALUE]... [--scale F] "
            "[--seed N] [--cpus N] [--hold live|ended] [--plant lose|spoil|keep]\nloads:\n",
            problem, word);
    list(STDERR_FILENO);
    exit(2);
}

static const struct shape *find(const char *name)
{
    for (int i = 0; i < SHAPES; i++)
        if (!strcmp(shapes[i]->name, name))
            return shapes[i];
    misused("no such load", name);
}

static bool is_valid(const struct setting *setting, const char *word, uint64_t *value)
{
    if (!setting->words)
        return parse_number(word, value) && *value >= setting->least && *value <= setting->most;
    for (*value = setting->least; *value <= setting->most; ++*value)
        if (!strcmp(setting->words[*value], word))
            return true;
    return false;
}

static void describe(char *to, size_t room, const struct setting *setting, uint64_t value)
{
    if (setting->words)
        snprintf(to, room, "%s", setting->words[value]);
    else
        snprintf(to, room, "%" PRIu64, value);
}

/* NAME USUAL LEAST MOST, a line a setting. */
static void tell_settings(const struct shape *shape)
{
    for (const struct setting *setting = shape->settings; setting->name; setting++) {
        char usual[32], least[32], most[32];
        describe(usual, sizeof usual, setting, setting->usual);
        describe(least, sizeof least, setting, setting->least);
        describe(most, sizeof most, setting, setting->most);
        dprintf(STDOUT_FILENO, "%s %s %s %s\n", setting->name, usual, least, most);
    }
}

static void set(const struct shape *shape, struct order *order, const char *word)
{
    const char *equals = strchr(word, '=');
    for (int i = 0; equals && shape->settings[i].name; i++) {
        const struct setting *setting = &shape->settings[i];
        size_t length = strlen(setting->name);
        if (length != (size_t)(equals - word) || strncmp(word, setting->name, length))
            continue;
        if (!is_valid(setting, equals + 1, &order->values[i])) {
            char least[32], most[32], problem[120];
            describe(least, sizeof least, setting, setting->least);
            describe(most, sizeof most, setting, setting->most);
            snprintf(problem, sizeof problem, "%s is from %s to %s", setting->name, least, most);
            misused(problem, equals + 1);
        }
        return;
    }
    misused("unknown setting", word);
}

static enum plant parse_plant(const char *word)
{
    static const char *const words[] = {[LOSE] = "lose", [SPOIL] = "spoil", [KEEP] = "keep"};
    for (int i = LOSE; i <= KEEP; i++)
        if (!strcmp(words[i], word))
            return (enum plant)i;
    misused("a fault is lose, spoil or keep", word);
}

static enum moment parse_moment(const struct shape *shape, const char *word)
{
    if (!strcmp(word, "ended"))
        return ENDED;
    if (strcmp(word, "live"))
        misused("a moment is live or ended", word);
    if (shape != &shape_fork_bomb)
        misused("only fork-bomb has tasks that live, not", shape->name);
    return LIVE;
}

static void scale_by(const struct shape *shape, struct order *order, double scale)
{
    for (int i = 0; shape->settings[i].name; i++) {
        const struct setting *setting = &shape->settings[i];
        if (!setting->scales)
            continue;
        double value = (double)order->values[i] * scale;
        order->values[i] = value < (double)setting->least  ? setting->least
                           : value > (double)setting->most ? setting->most
                                                           : (uint64_t)value;
    }
}

static struct order parse_order(const struct shape *shape, char **words)
{
    struct order order = {.seed = 1, .cpus = UINT64_MAX};
    double scale = 1;
    for (int i = 0; shape->settings[i].name; i++)
        order.values[i] = shape->settings[i].usual;
    for (; *words; words++) {
        const char *option = *words;
        if (strncmp(option, "--", 2)) {
            set(shape, &order, option);
            continue;
        }
        if (strcmp(option, "--scale") && strcmp(option, "--seed") && strcmp(option, "--cpus") &&
            strcmp(option, "--hold") && strcmp(option, "--plant"))
            misused("unknown option", option);
        const char *value = *++words;
        if (!value)
            misused("a value is missing after", option);
        if (!strcmp(option, "--plant"))
            order.plant = parse_plant(value);
        else if (!strcmp(option, "--hold"))
            order.hold = parse_moment(shape, value);
        else if (!strcmp(option, "--scale") && !parse_scale(value, &scale))
            misused("a scale is a number above 0, at most 1000000", value);
        else if (!strcmp(option, "--seed") && !parse_number(value, &order.seed))
            misused("a seed is a whole number", value);
        else if (!strcmp(option, "--cpus") && !(parse_number(value, &order.cpus) && order.cpus))
            misused("a number of CPUs is 1 or more", value);
    }
    scale_by(shape, &order, scale);
    return order;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        misused("a load is missing", "NAME");
    if (!strcmp(argv[1], "--list") && argc == 2) {
        list(STDOUT_FILENO);
        return 0;
    }
    if (!strcmp(argv[1], "--settings") && argc == 3) {
        tell_settings(find(argv[2]));
        return 0;
    }
    const struct shape *shape = find(argv[1]);
    struct order order = parse_order(shape, argv + 2);
    know_cpus(order.cpus);
    shape->run(&order);
    hold_at(&order, ENDED);
    return 0;
}
