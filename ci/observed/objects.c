/*
 * Holds as many objects of 200 bytes as it is told to, by lines on standard
 * input: "+7000" makes so many, "-2500" frees the newest. Answers each with a
 * line, and says its id first. It calls malloc for these objects alone: numbers
 * and lines are on the stack.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 100000

static void *objects[MOST];
static long held;

static void say(const char *what, long number)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s %ld\n", what, number);

    if (write(1, line, length) != length)
        exit(1);
}

/* A line without its end; 0 at the end of the input. */
static int line_of(char *line, size_t size)
{
    size_t n = 0;

    while (n + 1 < size && read(0, line + n, 1) == 1) {
        if (line[n] == '\n') {
            line[n] = 0;
            return 1;
        }
        n++;
    }
    return 0;
}

int main(void)
{
    char line[32];

    say("pid", getpid());
    while (line_of(line, sizeof line)) {
        long change = strtol(line, NULL, 10);

        if (held + change < 0 || held + change > MOST)
            return 2;
        for (; change > 0; change--) {
            if (!(objects[held] = malloc(200)))
                return 3;
            memset(objects[held++], 0x5a, 200);
        }
        for (; change < 0; change++)
            free(objects[--held]);
        say("held", held);
    }
    return 0;
}
