/*
 * Buffers that grow by realloc move seldom: a number of times that is logarithmic in their size,
 * however small the steps are. Room that is left may be used, and goes back where it is not.
 */
#include "check.h"
#include <malloc.h>

#define BUFFERS 20

static struct buffer {
    unsigned char *at;
    size_t bytes;
} buffers[BUFFERS];

static int moves;

static void resize(struct buffer *b, size_t bytes)
{
    uintptr_t before = (uintptr_t)b->at;
    size_t i;

    b->at = realloc(b->at, bytes);
    CHECK(b->at, "realloc to %zu", bytes);
    CHECK(malloc_usable_size(b->at) >= bytes, "%zu usable of %zu", malloc_usable_size(b->at), bytes);
    moves += before && (uintptr_t)b->at != before;
    for (i = b->bytes; i < bytes; i++)
        b->at[i] = (unsigned char)(i >> 8);
    b->bytes = bytes;
}

static void drop(struct buffer *b)
{
    size_t i;

    for (i = 0; i < b->bytes && b->at[i] == (unsigned char)(i >> 8); i++)
        ;
    CHECK(i == b->bytes, "byte %zu of %zu", i, b->bytes);
    free(b->at);
    *b = (struct buffer){0};
}

/* Each of so many buffers grows from nothing in such steps, in turns with the others. */
static void grow(int nr, size_t step, size_t to, int most)
{
    size_t n;
    int i;

    moves = 0;
    for (n = step; n <= to; n += step)
        for (i = 0; i < nr; i++)
            resize(&buffers[i], n);
    CHECK(moves <= most * nr, "%d buffers by %zu to %zu: %d moves each", nr, step, to, moves / nr);
    for (i = 0; i < nr; i++)
        drop(&buffers[i]);
}

/* It becomes smaller and larger, but moves no more. */
static void swing(size_t least, size_t most)
{
    struct buffer *b = &buffers[0];
    size_t n;

    for (n = 1000; n <= most; n += 1000)
        resize(b, n);
    moves = 0;
    for (int i = 0; i < 5; i++) {
        for (n = most; n >= least; n -= 1000)
            resize(b, n);
        for (n = least; n <= most; n += 1000)
            resize(b, n);
    }
    /* the system moves mappings as it likes, and copies nothing */
    CHECK(moves <= 20, "%d moves between %zu and %zu", moves, least, most);
    drop(b);
}

/* What is not used goes back. */
static void fit(size_t bytes)
{
    struct buffer *b = &buffers[0];
    size_t n, have;

    for (n = 1000; n <= bytes; n += 1000)
        resize(b, n);
    resize(b, bytes / 2);
    have = malloc_usable_size(b->at);
    CHECK(have <= bytes / 2 + bytes / 8, "%zu usable of %zu", have, bytes / 2);
    drop(b);
    /* A block that never grew is as large as it was asked to be. */
    b->at = malloc(bytes);
    b->at = realloc(b->at, bytes / 2);
    have = malloc_usable_size(b->at);
    CHECK(have <= bytes / 2 + 65536, "%zu usable of %zu", have, bytes / 2);
    drop(b);
}

int main(void)
{
    /* twice: the second time memory is free that the first one left */
    for (int i = 0; i < 2; i++) {
        grow(1, 16, 30000, 40);
        grow(1, 1000, 1000000, 50);
        grow(1, 4096, 1000000, 40);
        grow(1, 10000, 4000000, 50);
        grow(1, 1000, 3000000, 60);
        grow(2, 1000, 1000000, 50);
        grow(BUFFERS, 1000, 200000, 40);
        grow(BUFFERS, 100, 40000, 50);
        swing(100000, 400000);
        swing(600000, 2000000);
        fit(400000);
        fit(4000000);
    }
    return finish("growth");
}
