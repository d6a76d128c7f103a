/* The calls of malloc's C interface: results, errno, alignment, contents. */
#include "check.h"
#include <malloc.h>

#define MIB ((size_t)1 << 20)

/* Small, a run of pages, a mapping of its own. */
static const size_t kinds[] = { 24, 500, 5000, 100000, 3 * MIB };
#define NR_KINDS (sizeof kinds / sizeof kinds[0])

/* Sizes from 0 up: each one while they are small, then some near each power
 * of two and at quarters between. */
static size_t next_size(size_t size)
{
    size_t power;

    if (size < 1200)
        return size + 1;
    for (power = 1024; power * 2 <= size; power *= 2)
        ;
    if (size < power + 2)
        return size + 1;
    if (size == power * 2 - 1)
        return power * 2;
    size += power / 16 - 1;
    return size < power * 2 - 1 ? size : power * 2 - 1;
}

static void every_size(void)
{
    size_t size;
    int nr = 0;

    for (size = 0; size <= MIB + 1; size = next_size(size), nr++) {
        unsigned char *p = malloc(size), *q = calloc(1, size);
        size_t usable;

        CHECK(p && q, "size %zu", size);
        if (!p || !q)
            return;
        CHECK(p != q, "size %zu: the same pointer twice", size);
        CHECK(aligned_to(p, 16) && aligned_to(q, 16), "size %zu: %p %p", size, p, q);
        CHECK(all_zero(q, size), "calloc of %zu is not zero", size);
        usable = malloc_usable_size(p);
        CHECK(usable >= size, "usable %zu of %zu", usable, size);
        fill(p, usable, size);
        fill(q, malloc_usable_size(q), ~size);
        CHECK(intact(p, usable, size), "size %zu: neighbours overlap", size);
        free(q);
        CHECK(intact(p, usable, size), "size %zu: free touched a neighbour", size);
        free(p);
    }
    CHECK(nr > 1000, "only %d sizes tried", nr);
}

static void zero_sizes(void)
{
    void *p[6];
    int i, j;

    p[0] = malloc(0);
    p[1] = malloc(0);
    p[2] = calloc(0, 8);
    p[3] = calloc(8, 0);
    p[4] = realloc(NULL, 0);
    p[5] = memalign(64, 0);
    for (i = 0; i < 6; i++) {
        CHECK(p[i] != NULL, "zero size number %d", i);
        for (j = 0; j < i; j++)
            CHECK(p[i] != p[j], "%d and %d are the same", i, j);
    }
    for (i = 0; i < 6; i++)
        free(p[i]);
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0, "of a null pointer");
}

#define NO_MEMORY(call)                                                        \
    do {                                                                       \
        void *got_;                                                            \
        errno = 0;                                                             \
        got_ = opaque(call);                                                   \
        CHECK(got_ == NULL, "%s gave %p", #call, got_);                        \
        CHECK(errno == ENOMEM, "%s set errno to %d", #call, errno);            \
    } while (0)

static void too_much(void)
{
    volatile size_t huge = (size_t)PTRDIFF_MAX + 1, all = SIZE_MAX;
    void *keep = malloc(100), *out = keep;

    fill(keep, 100, 7);
    NO_MEMORY(malloc(huge));
    NO_MEMORY(malloc(all));
    NO_MEMORY(malloc(all - 15));
    NO_MEMORY(malloc(all - 4095));
    NO_MEMORY(malloc((size_t)PTRDIFF_MAX));
    NO_MEMORY(calloc(all, 1));
    NO_MEMORY(calloc(all, all));
    NO_MEMORY(calloc((size_t)1 << 32, (size_t)1 << 32));
    NO_MEMORY(calloc(all / 2 + 2, 2));
    NO_MEMORY(realloc(keep, huge));
    NO_MEMORY(realloc(keep, all));
    NO_MEMORY(realloc(NULL, all));
    NO_MEMORY(reallocarray(keep, all, 2));
    NO_MEMORY(reallocarray(keep, all / 2 + 2, 2));
    NO_MEMORY(reallocarray(NULL, (size_t)1 << 33, (size_t)1 << 33));
    NO_MEMORY(memalign(64, all));
    NO_MEMORY(memalign(4096, all - 4096));
    NO_MEMORY(aligned_alloc(64, huge));
    NO_MEMORY(valloc(all));
    NO_MEMORY(pvalloc(all));
    NO_MEMORY(pvalloc(all - 100));
    CHECK(posix_memalign(&out, 64, all) == ENOMEM, "of the whole space");
    CHECK(posix_memalign(&out, 64, huge) == ENOMEM, "of half the space");
    CHECK(out == keep, "a failed posix_memalign wrote its result");
    CHECK(intact(keep, 100, 7), "a failed realloc spoilt its block");
    free(keep);
}

static void free_keeps_errno(void)
{
    size_t i;
    int n;

    for (i = 0; i < NR_KINDS; i++) {
        void *p[50];

        for (n = 0; n < 50; n++)
            p[n] = malloc(kinds[i]);
        errno = EXDEV;
        for (n = 0; n < 50; n++)
            free(p[n]);
        CHECK(errno == EXDEV, "free of %zu bytes set errno to %d", kinds[i], errno);
    }
    errno = EXDEV;
    free(NULL);
    CHECK(errno == EXDEV, "free of null set errno to %d", errno);
    for (i = 0; i < NR_KINDS; i++) {
        void *p;

        errno = EXDEV;
        p = malloc(kinds[i]);
        CHECK(errno == EXDEV, "a malloc that served set errno to %d", errno);
        free(p);
    }
}

static void alignments(void)
{
    static const size_t sizes[] = { 0, 1, 16, 17, 100, 1000, 4096, 20000, 300000, 2 << 20 };
    size_t alignment, i;
    long page = sysconf(_SC_PAGESIZE);

    for (alignment = 8; alignment <= MIB; alignment *= 2) {
        for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            size_t size = sizes[i], rounded = (size + alignment - 1) & -alignment;
            void *p[3] = { NULL, NULL, NULL }, *grown;
            int k;

            CHECK(posix_memalign(&p[0], alignment, size) == 0, "%zu %zu", alignment, size);
            p[1] = memalign(alignment, size);
            p[2] = aligned_alloc(alignment, rounded);
            for (k = 0; k < 3; k++) {
                size_t usable = malloc_usable_size(p[k]);

                CHECK(p[k] && aligned_to(p[k], alignment), "way %d: %p for %zu, size %zu",
                      k, p[k], alignment, size);
                CHECK(usable >= (k == 2 ? rounded : size), "way %d: usable %zu", k, usable);
                fill(p[k], usable, (uintptr_t)p[k]);
            }
            for (k = 0; k < 3; k++)
                CHECK(intact(p[k], malloc_usable_size(p[k]), (uintptr_t)p[k]),
                      "way %d of %zu, size %zu: overlap", k, alignment, size);
            grown = realloc(p[0], size + 5000);
            fill(grown, size + 5000, 1);
            free(p[1]);
            free(grown);
            free(p[2]);
        }
    }
    for (i = 0; i < 9; i++) {
        size_t size = sizes[i];
        void *v = valloc(size), *w = pvalloc(size);

        CHECK(v && aligned_to(v, (size_t)page), "valloc(%zu) = %p", size, v);
        CHECK(w && aligned_to(w, (size_t)page), "pvalloc(%zu) = %p", size, w);
        if (size)
            CHECK(malloc_usable_size(w) >= (size + (size_t)page - 1) / (size_t)page * (size_t)page,
                  "pvalloc(%zu) has %zu", size, malloc_usable_size(w));
        free(v);
        free(w);
    }
}

static void bad_alignments(void)
{
    static const size_t bad[] = { 0, 1, 2, 3, 4, 7, 12, 24, 100, 4095, SIZE_MAX };
    size_t i;
    void *p, *mark = &p;

    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        p = mark;
        errno = EXDEV;
        CHECK(posix_memalign(&p, bad[i], 64) == EINVAL, "alignment %zu", bad[i]);
        CHECK(p == mark, "alignment %zu: the pointer was written", bad[i]);
        CHECK(errno == EXDEV, "alignment %zu: errno was written", bad[i]);
    }
    /* The C library rounds up or refuses: either is right, a wrong block not. */
    errno = 0;
    p = aligned_alloc(24, 48);
    CHECK(p ? aligned_to(p, 32) : errno == EINVAL, "aligned_alloc(24): %p, %d", p, errno);
    free(p);
    errno = 0;
    p = memalign(SIZE_MAX / 2 + 2, 64);
    CHECK(!p && errno == EINVAL, "memalign of too much: %p, %d", p, errno);
}

static void calloc_is_zero(void)
{
    static const size_t sizes[] = { 1, 8, 16, 64, 200, 1000, 2048, 4000, 9000, 18000,
                                    20000, 70000, 400000, MIB, 2 * MIB, 5 * MIB };
    size_t i;
    int round, n;

    for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int many = sizes[i] < 10000 ? 300 : 8;
        void *p[300];

        for (round = 0; round < 3; round++) {
            for (n = 0; n < many; n++) {
                p[n] = malloc(sizes[i]);
                memset(p[n], 0xa5, malloc_usable_size(p[n]));
            }
            for (n = 0; n < many; n++)
                free(p[n]);
            for (n = 0; n < many; n++) {
                p[n] = n % 2 ? calloc(sizes[i], 1) : calloc(1, sizes[i]);
                CHECK(p[n] && all_zero(p[n], sizes[i]), "calloc of %zu reused dirty memory",
                      sizes[i]);
            }
            for (n = 0; n < many; n++) {
                memset(p[n], 0x5a, sizes[i]);
                free(p[n]);
            }
        }
    }
}

static void realloc_keeps(void)
{
    size_t size, last, step;
    void *p = NULL, *q;

    /* Up through every size, then down again. */
    for (last = 0, size = 1; size <= 4 * MIB; last = size, size = next_size(size)) {
        q = realloc(p, size);
        CHECK(q, "to %zu", size);
        CHECK(intact(q, last, last), "contents lost from %zu to %zu", last, size);
        CHECK(malloc_usable_size(q) >= size, "usable at %zu", size);
        fill(q, size, size);
        p = q;
    }
    while (last > 1) {
        step = last > 20000 ? last / 9 : last / 40 + 1;
        size = last - step;
        q = realloc(p, size);
        CHECK(q && intact(q, size, last), "contents lost from %zu to %zu", last, size);
        fill(q, size, size);
        p = q;
        last = size;
    }
    /* Between any two kinds. */
    for (size = 0; size < NR_KINDS; size++) {
        for (step = 0; step < NR_KINDS; step++) {
            size_t from = kinds[size], to = kinds[step];

            q = malloc(from);
            fill(q, from, 3);
            q = realloc(q, to);
            CHECK(q && intact(q, from < to ? from / 8 * 8 : to / 8 * 8, 3), "%zu to %zu", from, to);
            free(q);
        }
    }
    errno = EXDEV;
    q = realloc(p, 0);
    CHECK(q == NULL && errno == EXDEV, "realloc to 0 frees, and gives null: %p %d", q, errno);
    q = reallocarray(NULL, 10, 30);
    CHECK(q && malloc_usable_size(q) >= 300, "reallocarray of null");
    fill(q, 300, 4);
    q = reallocarray(q, 1000, 30);
    CHECK(q && intact(q, 296, 4), "reallocarray lost the contents");
    free(q);
}

static void inspection(void)
{
    struct mallinfo2 big;
    struct mallinfo narrow;
    void *p[160];
    char *text = NULL, seen[64];
    size_t length = 0;
    FILE *stream;
    int n, saved, file, result;

    for (n = 0; n < 160; n++)
        p[n] = calloc(1, 1 << 16);
    big = mallinfo2();
    narrow = mallinfo();
    CHECK(big.uordblks + big.hblkhd >= 10 * MIB, "in use: %zu + %zu", big.uordblks, big.hblkhd);
    CHECK((size_t)(unsigned)narrow.uordblks + (unsigned)narrow.hblkhd >= 10 * MIB,
          "in use: %d + %d", narrow.uordblks, narrow.hblkhd);
    for (n = 0; n < 160; n++)
        free(p[n]);
    result = malloc_trim(0);
    CHECK(result == 0 || result == 1, "malloc_trim gave %d", result);
    CHECK(mallopt(M_TRIM_THRESHOLD, 128 << 10) == 1, "mallopt refused the trim threshold");
    CHECK(mallopt(M_MMAP_THRESHOLD, 128 << 10) == 1, "mallopt refused the map threshold");

    stream = open_memstream(&text, &length);
    CHECK(malloc_info(0, stream) == 0, "malloc_info failed");
    fclose(stream);
    CHECK(text && strncmp(text, "<malloc", 7) == 0 && strstr(text, "</malloc>"),
          "malloc_info wrote: %.80s", text ? text : "nothing");
    free(text);
    errno = 0;
    result = malloc_info(1, stderr);
    CHECK(result != 0, "malloc_info took unknown options");

    fflush(stderr);
    saved = dup(2);
    file = memfd_create("seen", 0);
    dup2(file, 2);
    malloc_stats();
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    length = (size_t)pread(file, seen, sizeof seen, 0);
    close(file);
    CHECK(length > 10 && length <= sizeof seen, "malloc_stats wrote %zd bytes", (ssize_t)length);
}

static void sized_free(void)
{
    void (*free_sized)(void *, size_t) = dlsym(RTLD_DEFAULT, "free_sized");
    void (*free_aligned)(void *, size_t, size_t) = dlsym(RTLD_DEFAULT, "free_aligned_sized");
    size_t i, alignment;
    int n;

    if (!free_sized || !free_aligned) {
        puts("free_sized: not in this C library, skipped");
        return;
    }
    errno = EXDEV;
    for (i = 0; i < NR_KINDS; i++) {
        for (n = 0; n < 300; n++) {
            void *p = n % 2 ? malloc(kinds[i]) : calloc(1, kinds[i]);

            memset(p, 1, kinds[i] < 5000 ? kinds[i] : 5000);
            free_sized(p, kinds[i]);
        }
        for (alignment = 16; alignment <= MIB; alignment *= 4) {
            void *p = aligned_alloc(alignment, kinds[i]);

            free_aligned(p, alignment, kinds[i]);
        }
    }
    free_sized(malloc(0), 0);
    free_sized(NULL, 10);
    free_aligned(NULL, 64, 10);
    CHECK(errno == EXDEV, "a sized free set errno to %d", errno);
}

/* A random load with its contents checked: blocks never overlap. */
static void mixed(void)
{
    enum { SLOTS = 2000 };
    static struct { void *p; size_t size; } slot[SLOTS];
    uint64_t random = 88172645463325252u;
    int n;

    for (n = 0; n < 200000; n++) {
        uint64_t r = next_random(&random);
        int i = (int)(r % SLOTS);
        size_t size = (r >> 20) % 100 ? (r >> 32) % 600 : (r >> 32) % 60000;

        if (slot[i].p)
            CHECK(intact(slot[i].p, slot[i].size, (uint64_t)i), "slot %d, size %zu", i,
                  slot[i].size);
        if (slot[i].p && (r >> 16) % 4) {
            free(slot[i].p);
            slot[i].p = NULL;
        } else {
            slot[i].p = slot[i].p ? realloc(slot[i].p, size + 1) : malloc(size + 1);
            slot[i].size = size + 1;
            fill(slot[i].p, size + 1, (uint64_t)i);
        }
    }
    for (n = 0; n < SLOTS; n++)
        free(slot[n].p);
}

int main(void)
{
    every_size();
    zero_sizes();
    too_much();
    free_keeps_errno();
    alignments();
    bad_alignments();
    calloc_is_zero();
    realloc_keeps();
    inspection();
    sized_free();
    mixed();
    return finish("api");
}
