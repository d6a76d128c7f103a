/*
 * Large blocks of which little is written, seven thousand of 1 GiB and others of
 * 40 MiB: as many as there is address space for, and small objects beside them. Zeroed
 * blocks of which one byte is written, and what of them is resident; and the same of others,
 * alone and beside small objects.
 */
#include "check.h"

#include <sys/wait.h>

#define GIB ((size_t)1 << 30)
#define NR 7000

/* What the kernel adds at the ends of all blocks where it makes huge pages, in KiB. */
#define HUGE_ENDS 4096

static char *blocks[NR];

/* Where a page becomes resident for each byte, `most` KiB; else what all blocks can be, and a third
 * for their classes and the stripes of nodes. */
static long most_resident(long most, size_t size, size_t nr)
{
    return makes_huge_pages() ? (long)((size * nr) >> 10) * 4 / 3 + HUGE_ENDS : most;
}

/* Only a system that charges what is not written refuses them. */
static int is_charged(void)
{
    char mode = '0';
    int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY);

    if (fd >= 0 && read(fd, &mode, 1) != 1)
        mode = '0';
    close(fd);
    return mode == '2';
}

static void take_and_free(size_t size)
{
    size_t n, nr;

    for (nr = 0; nr < NR && (blocks[nr] = malloc(size)); nr++)
        if (nr % 50 == 0) {
            blocks[nr][0] = (char)nr;
            blocks[nr][size - 1] = (char)~nr;
        }
    CHECK(nr == NR, "%zu blocks of %zu MiB", nr, size >> 20);
    for (n = 0; n < 1000; n++) {
        char *small = malloc(16 + n * 30);

        CHECK(small, "no small object beside %zu blocks", nr);
        free(small);
    }
    for (n = 0; n < nr; n++) {
        if (n % 50 == 0)
            CHECK(blocks[n][0] == (char)n && blocks[n][size - 1] == (char)~n, "block %zu", n);
        free(blocks[n]);
    }
}

/* What is known to be zero is not written. */
static void zeroed(size_t size)
{
    size_t nr = 2000, n;
    long before = resident_kib(), after, most;

    for (n = 0; n < nr && (blocks[n] = calloc(1, size)); n++)
        blocks[n][size / 2] = 1;
    CHECK(n == nr, "%zu zeroed blocks of %zu", n, size);
    after = resident_kib();
    /* A page and its share of tables, where one byte was written. */
    most = most_resident(20000, size, nr);
    CHECK(before < 0 || after - before < most, "%ld KiB resident of %zu blocks of %zu",
          after - before, nr, size);
    for (n = 0; n < nr; n++) {
        CHECK(blocks[n][size / 2] == 1 && blocks[n][0] == 0 && blocks[n][size - 1] == 0,
              "block %zu", n);
        free(blocks[n]);
    }
}

/*
 * However large a block is, it has the page that is written to, and one of the allocator's: `most`
 * KiB, and with nodes what lies at the ends of their stripes, of which a thread that moves between
 * nodes begins more.
 */
static void touched(size_t size, size_t nr, int small, long most)
{
    size_t n, k;
    long before = resident_kib(), after;
    char **objects = malloc(2 * nr * sizeof(*objects));

    if (getenv("SLABYARD_NODES"))
        most += 2;
    most = most_resident(most * (long)nr, size + small * 2 * 1500, nr);

    for (n = 0; n < nr && (blocks[n] = malloc(size)); n++) {
        blocks[n][0] = 1;
        for (k = 0; small && k < 2; k++)
            if ((objects[2 * n + k] = malloc(1500)))
                memset(objects[2 * n + k], 1, 1500);
    }
    CHECK(n == nr, "%zu blocks of %zu", n, size);
    after = resident_kib();
    CHECK(before < 0 || after - before < most, "%ld KiB resident of %zu blocks of %zu",
          after - before, nr, size);
    for (n = 0; n < nr; n++) {
        free(blocks[n]);
        for (k = 0; small && k < 2; k++)
            free(objects[2 * n + k]);
    }
    free(objects);
}

/* In a process that had no other blocks. */
static void touched_alone(size_t size, size_t nr, int small, long most)
{
    pid_t child;
    int status = -1;

    if (makes_huge_pages())
        nr /= 10;
    child = fork();
    if (child == 0) {
        touched(size, nr, small, most);
        _exit(finish("touched"));
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "%zu blocks of %zu", nr,
          size);
}

int main(void)
{
    if (is_charged()) {
        printf("skipped: this system charges memory that is not written\n");
        return 0;
    }
    touched_alone(600 << 10, 3000, 0, 12);
    touched_alone(900 << 10, 3000, 0, 12);
    touched_alone(800 << 10, 3000, 1, 15);
    touched_alone(1100 << 10, 7000, 0, 10);
    zeroed(200000);
    take_and_free(GIB);
    take_and_free(40 << 20);
    take_and_free(GIB);
    return finish("sparse");
}
