/*
 * Blocks that grow beyond a mebibyte leave memory that others use next: it is zero where calloc
 * hands it out, and the system reads from it and writes to it. A buffer that is copied to one of
 * twice its size each time it is full finds the memory of the one before it.
 */
#include "check.h"

#define MIB ((size_t)1 << 20)

static void through_a_pipe(char *from, char *to, size_t size)
{
    int ends[2];
    size_t at, step = 16384;

    CHECK(pipe(ends) == 0, "a pipe");
    for (at = 0; at + step <= size; at += step) {
        CHECK(write(ends[1], from + at, step) == (ssize_t)step, "write: %s", strerror(errno));
        CHECK(read(ends[0], to + at, step) == (ssize_t)step, "read: %s", strerror(errno));
    }
    CHECK(memcmp(from, to, size / step * step) == 0, "other bytes");
    close(ends[0]);
    close(ends[1]);
}

/* One that finds other memory each round touches new pages, while those of the last round go back. */
static void doubled(size_t to)
{
    enum { ROUNDS = 60 };
    char *seen[ROUNDS], *at, *more;
    size_t round, size, k, nr = 0;

    for (round = 0; round < ROUNDS; round++) {
        at = malloc(64);
        for (size = 64; at && size < to; size *= 2) {
            more = malloc(2 * size);
            if (more)
                memcpy(memset(more, 1, 2 * size), at, size);
            free(at);
            at = more;
        }
        CHECK(at, "no memory");
        for (k = 0; k < nr && seen[k] != at; k++)
            ;
        if (k == nr)
            seen[nr++] = at;
        free(at);
    }
    CHECK(nr <= ROUNDS / 2, "%zu positions in %d rounds", nr, ROUNDS);
}

int main(void)
{
    size_t round, n, size;
    char *grown[3], *zeroed[12];

    doubled(4 * MIB);
    for (round = 0; round < 4; round++) {
        /* In turns, so that none has room behind it. */
        memset(grown, 0, sizeof grown);
        for (size = MIB / 4; size < 9 * MIB; size *= 2)
            for (n = 0; n < 3; n++) {
                grown[n] = realloc(grown[n], size);
                CHECK(grown[n], "no memory");
                memset(grown[n], 0xa5, size);
            }
        for (n = 0; n < 12; n++) {
            zeroed[n] = calloc(1, MIB / 4 * (n % 6 + 1));
            CHECK(zeroed[n] && all_zero(zeroed[n], MIB / 4 * (n % 6 + 1)), "calloc, block %zu", n);
            if (n)
                through_a_pipe(zeroed[n], zeroed[n - 1], MIB / 4);
            memset(zeroed[n], 0x5a, MIB / 4 * (n % 6 + 1));
        }
        for (n = 0; n < 12; n++)
            free(zeroed[n]);
        for (n = 0; n < 3; n++)
            free(grown[n]);
    }
    return finish("buffers");
}
