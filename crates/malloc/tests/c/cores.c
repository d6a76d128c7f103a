/*
 * What core files hold: all memory that was written, and no reserve of address
 * space. Mappings that are left out bear the flag `dd` (madvise(2),
 * MADV_DONTDUMP); debuggers write all others, whether something is in them or not.
 */
#include "check.h"

#define BLOCKS 6000
static void *block[BLOCKS];

struct held {
    size_t kept, lost;
};

/* Looks at each private mapping without a file. */
static struct held held(void)
{
    struct held held = {0, 0};
    size_t size = 0, anonymous = 0;
    int no_file = 0;
    char line[512];
    FILE *file = fopen("/proc/self/smaps", "r");

    if (!file)
        return held;
    while (fgets(line, sizeof line, file)) {
        unsigned long first, end, inode;
        char mode[8];

        if (sscanf(line, "%lx-%lx %7s %*s %*s %lu", &first, &end, mode, &inode) == 4) {
            size = end - first;
            no_file = !inode && mode[3] == 'p';
        } else if (sscanf(line, "Anonymous: %zu", &anonymous) == 1) {
            anonymous *= 1024;
        } else if (no_file && !strncmp(line, "VmFlags:", 8)) {
            if (strstr(line, " dd"))
                held.lost += anonymous;
            else
                held.kept += size;
        }
    }
    fclose(file);
    return held;
}

int main(void)
{
    size_t live = 0;
    struct held now = held();
    int i, step;

    CHECK(now.kept > 0, "no mapping is told");
    CHECK(now.kept < 32u << 20, "%zu bytes at the begin", now.kept);
    for (step = 0; step < 3; step++) {
        for (i = step * (BLOCKS / 3); i < (step + 1) * (BLOCKS / 3); i++) {
            size_t size = i % 9 ? 100 + (size_t)i % 4000 : 90000;

            block[i] = malloc(size);
            memset(block[i], 5, size);
            live += size;
        }
        now = held();
        CHECK(now.lost == 0, "%zu bytes written are left out", now.lost);
        CHECK(now.kept < 3 * live + (32u << 20), "%zu of %zu bytes", now.kept, live);
        CHECK(now.kept > live, "%zu of %zu bytes", now.kept, live);
    }
    for (i = 0; i < BLOCKS; i++)
        free(block[i]);
    return nr_failed ? 1 : 0;
}
