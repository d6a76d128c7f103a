/*
 * calloc's memory is zero, though pages cannot be given back to the system:
 *
 *   zero HOW [trim] [small]
 *
 * HOW: nothing, mlockall, mlockall-onfault, block (each freed block was locked
 * and stays so), page (single pages of them), or a call that is refused:
 * madvise:EINVAL. Blocks are dirtied and freed; then, with `trim` at once and
 * without when they have grown old, calloc's blocks are looked at. `small`: all of it in
 * a few MiB.
 */
#include "refuse.h"

enum { ROUNDS = 6, BLOCKS = 40, NR_SIZES = 8 };

/* Above the largest object, so that calloc trusts what it knows of pages. */
static const size_t sizes[NR_SIZES] = {
    100000, 20000, 33000, 70001, 150000, 400000, 1 << 20, 3 << 20,
};

static uint64_t random_state = 12345;
static int is_small;

static void lock_pages(const char *how, char *p, size_t size)
{
    size_t at, page = (size_t)sysconf(_SC_PAGESIZE);
    int failed = 0;

    if (strcmp(how, "block") == 0)
        failed = mlock(p, size);
    else if (strcmp(how, "page") == 0)
        for (at = 0; at < size; at += page)
            if (next_random(&random_state) % 8 == 0)
                failed |= mlock(p + at, 1);
    if (failed)
        not_possible("mlock");
}

/* Memory that is locked counts: a few large blocks are as good as many. */
static int nr_of(size_t size)
{
    return is_small ? 4 : size > 200000 ? 3 : BLOCKS;
}

static void dirty(const char *how, size_t size)
{
    void *blocks[BLOCKS];
    int n, nr = nr_of(size);

    for (n = 0; n < nr; n++) {
        blocks[n] = opaque(malloc(size));
        if (!blocks[n])
            not_possible("memory");
        memset(blocks[n], 0xa5, size);
        lock_pages(how, blocks[n], size);
    }
    for (n = 0; n < nr; n++)
        free(blocks[n]);
}

static size_t nr_dirty(const unsigned char *p, size_t size)
{
    size_t n, nr = 0;

    for (n = 0; n < size; n++)
        nr += p[n] != 0;
    return nr;
}

static void look(size_t size)
{
    void *blocks[BLOCKS];
    int n, nr = nr_of(size);

    for (n = 0; n < nr; n++) {
        blocks[n] = opaque(calloc(1, size));
        if (!blocks[n])
            not_possible("memory");
        CHECK(all_zero(blocks[n], size), "%zu of %zu bytes of calloc's block %d are not zero",
              nr_dirty(blocks[n], size), size, n);
    }
    for (n = 0; n < nr; n++) {
        memset(blocks[n], 0x5a, size);
        free(blocks[n]);
    }
}

static void begin(const char *how)
{
    struct rlimit most = { RLIM_INFINITY, RLIM_INFINITY };

    /* As root there is no limit; as another, what is locked must stay small. */
    (void)setrlimit(RLIMIT_MEMLOCK, &most);
    if (strchr(how, ':')) {
        refuse(how);
    } else if (strcmp(how, "mlockall") == 0) {
        if (mlockall(MCL_CURRENT | MCL_FUTURE))
            not_possible("mlockall");
    } else if (strcmp(how, "mlockall-onfault") == 0) {
        if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT))
            not_possible("mlockall");
    }
}

int main(int argc, char **argv)
{
    size_t round, n, nr_sizes = NR_SIZES;

    if (argc < 2)
        usage("zero HOW [trim] [small]");
    is_small = has_word(argv, "small");
    if (is_small)
        nr_sizes = NR_SIZES / 2;
    begin(argv[1]);
    for (round = 0; round < ROUNDS; round++) {
        /* Freed together, so that what calloc takes was several blocks before. */
        for (n = round % 2; n < nr_sizes; n += round < 2 ? 1 : 2)
            dirty(argv[1], sizes[n]);
        if (has_word(argv, "trim"))
            malloc_trim(0);
        else if (round < 3)
            grow_old();
        for (n = 0; n < nr_sizes; n++)
            look(sizes[(n + round) % nr_sizes]);
    }
    return finish("zero");
}
