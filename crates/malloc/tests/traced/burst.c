/*
 * A burst of objects from two sites, of which one in a hundred survives, taken at random; then the
 * pages that are free go back. Prints how many survive of each site, and by how many KiB the
 * process grew, and waits for the end of its input.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 256, ONE_IN = 100, SESSIONS = 4 };

static long resident_kib(void)
{
    char text[128] = "";
    FILE *stream = fopen("/proc/self/statm", "r");
    long pages = 0;

    if (stream && fgets(text, sizeof text, stream))
        sscanf(text, "%*s %ld", &pages);
    if (stream)
        fclose(stream);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

__attribute__((noinline)) static void *open_session(void)
{
    void *p = malloc(SIZE);

    return memset(p, 1, SIZE);
}

__attribute__((noinline)) static void *receive_packet(void)
{
    void *p = malloc(SIZE);

    return memset(p, 2, SIZE);
}

int main(int argc, char **argv)
{
    long nr = argc > 1 ? atol(argv[1]) : 1000, left[2] = { 0, 0 }, begin, n;
    /* The table is no memory of the allocator's. */
    char **objects = mmap(NULL, nr * sizeof *objects, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    unsigned long long state = 88172645463325252u;

    begin = resident_kib();
    for (n = 0; n < nr; n++)
        objects[n] = n % SESSIONS ? receive_packet() : open_session();
    for (n = 0; n < nr; n++) {
        /* xorshift64 (Marsaglia, 2003). */
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if (state % ONE_IN)
            free(objects[n]);
        else
            left[objects[n][0] == 1]++;
    }
    malloc_trim(0);
    n = resident_kib();
    printf("%ld %ld %ld\n", left[1], left[0], n - begin);
    fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}
