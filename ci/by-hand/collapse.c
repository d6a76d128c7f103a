/*
 * Memory that went back in parts of huge pages, and what the system makes of it:
 *
 *   collapse SECONDS
 *
 * prints MiB resident with 300 MB of objects, after all but each 2000th were freed and
 * the heap was trimmed, after so many seconds, and with all objects again, and how much of
 * that is in huge pages.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OBJECTS = 300000, BYTES = 1000, KEPT = 2000 };

static char *objects[OBJECTS];

/* A field of this process, in MiB. */
static long mib(const char *name)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[200];
    long kib = -1;

    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtol(line + strlen(name) + 1, NULL, 10);
    if (file)
        fclose(file);
    return kib / 1024;
}

static void fill(void)
{
    int n;

    for (n = 0; n < OBJECTS; n++)
        if (!objects[n]) {
            objects[n] = malloc(BYTES);
            memset(objects[n], 1, BYTES);
        }
}

static void leave_one_of(int nr)
{
    int n;

    for (n = 0; n < OBJECTS; n++)
        if (n % nr) {
            free(objects[n]);
            objects[n] = NULL;
        }
    malloc_trim(0);
}

int main(int argc, char **argv)
{
    long full, trimmed, later;

    fill();
    full = mib("Rss");
    leave_one_of(KEPT);
    trimmed = mib("Rss");
    sleep(argc > 1 ? (unsigned)atoi(argv[1]) : 10);
    later = mib("Rss");
    leave_one_of(OBJECTS);
    fill();
    printf("%ld %ld %ld %ld %ld\n", full, trimmed, later, mib("Rss"), mib("AnonHugePages"));
    return 0;
}
