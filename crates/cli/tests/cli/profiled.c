/* Allocates at two places: so many rounds of 12 MB each way, with so many microseconds between two.
 * Small objects are freed but each tenth, large ones stay. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALL = 100, LARGE = 200000, SMALLS = 2000, MOST = 1000 };

__attribute__((noinline)) static void *site_small(void)
{
    return memset(malloc(SMALL), 1, SMALL);
}

__attribute__((noinline)) static void *site_large(void)
{
    char *large = malloc(LARGE);

    *large = 1;
    return large;
}

int main(int argc, char **argv)
{
    static void *kept[MOST * (SMALLS / 10 + 1)];
    int rounds = atoi(argv[1]), pause = atoi(argv[2]), nr = 0, i;

    puts("ready");
    fflush(stdout);
    while (rounds-- && nr < MOST * (SMALLS / 10)) {
        for (i = 0; i < SMALLS; i++) {
            void *small = site_small();

            if (i % 10)
                free(small);
            else
                kept[nr++] = small;
        }
        kept[nr++] = site_large();
        usleep((useconds_t)pause);
    }
    return argc > 3 ? atoi(argv[3]) : 0;
}
