/* Memory that comes back after a burst of which one object in a hundred stays:
 *
 *   rest OBJECTS LARGE pairs|idle MS...
 *
 * OBJECTS small objects (16 to 4096 bytes, each octave as often as another)
 * and LARGE large ones (256 KiB to 8 MiB) are allocated in a mixed order and
 * written in full; 99 % of them are freed in random order.
 * Then `pairs` makes 1000 small pairs a second, ten at a time; `idle` calls
 * nothing. At each moment MS, in milliseconds since the last free, it says
 *
 *   at MS RSS_KIB LAZY_KIB EMPTY RESIDENT
 *
 * EMPTY is the number of pages that objects were written to at the peak and
 * that hold no byte of an object that stays (all that malloc_usable_size says
 * is its); RESIDENT is how many of them are still in memory, by pagemap.
 * LAZY_KIB is what was given up by MADV_FREE and the system has not taken yet:
 * it is resident. After the last moment `idle` calls malloc(64) and free, and
 * says `call` in place of `at MS`, then malloc(1 MiB) and free, and says
 * `slow`. The first line is `peak RSS_KIB PAGE_KIB`, without the program's own tables
 * and with the size of a page.
 *
 * Everything that the program keeps for itself is mapped by itself, so that no
 * call of its own disturbs what is measured.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "load.h"

enum { KEPT_ONE_IN = 100, GROUP = 10, GROUPS_A_SECOND = 100, MOMENTS = 16 };
/* Bits for each page of 47 bits of addresses: mapped sparsely, and looked
 * through by chunks of one page of bits, those that were used. */
enum { ADDRESS_BITS = 47, CHUNK_WORDS = 512 };

struct object {
    unsigned char *start;
    size_t usable;
};

static uint64_t random_state = 0x9e3779b97f4a7c15ull;
static unsigned page_shift;
static uint64_t *touched, *live, nr_chunks;
static unsigned char *chunk_used;
static uint64_t own_kib;
static int pagemap;

static void die(const char *what)
{
    (void)!write(2, "rest: ", 6);
    (void)!write(2, what, strlen(what));
    (void)!write(2, "\n", 1);
    _exit(3);
}

static void say(const char *line)
{
    if (write(1, line, strlen(line)) < 0)
        _exit(3);
}

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        die("no memory for its own tables");
    /* Else THP `always` would make its tables part of what is measured. */
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    return memory;
}

/* Each octave from `least` (a power of two) on as often as another. */
static size_t drawn(size_t least, unsigned octaves)
{
    size_t from = least << next_random(&random_state) % octaves;
    return from + next_random(&random_state) % from;
}

static void mark(uint64_t *bits, const struct object *o)
{
    uint64_t first = (uintptr_t)o->start >> page_shift;
    uint64_t last = ((uintptr_t)o->start + o->usable - 1) >> page_shift;
    for (uint64_t page = first; page <= last; page++) {
        bits[page / 64] |= 1ull << page % 64;
        chunk_used[page / 64 / CHUNK_WORDS] = 1;
    }
}

static struct object make(bool large)
{
    size_t size = large ? drawn(256 << 10, 5) : drawn(16, 8);
    struct object o = {.start = malloc(size)};
    if (!o.start)
        die("out of memory");
    memset(o.start, 0x5a, size);
    o.usable = malloc_usable_size(o.start);
    if (o.usable < size)
        die("malloc_usable_size is below what was asked for");
    /* Whole pages of slack were not written. */
    struct object written = {.start = o.start, .usable = size};
    mark(touched, &written);
    return o;
}

/* A row of `smaps_rollup` in KiB. */
static uint64_t row_kib(const char *text, const char *name)
{
    const char *row = strstr(text, name);
    return row ? strtoull(row + strlen(name), NULL, 10) : 0;
}

static void resident(uint64_t *rss, uint64_t *lazy)
{
    char text[2048];
    int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (n <= 0)
        die("smaps_rollup cannot be read");
    close(file);
    text[n] = 0;
    *rss = row_kib(text, "\nRss:") - own_kib;
    *lazy = row_kib(text, "\nLazyFree:");
}

/* Pages in memory (bit 63 of their entry) or swapped (bit 62) of those in one
 * word of bits. */
static unsigned count_present(uint64_t word, uint64_t bits)
{
    uint64_t entries[64];
    unsigned present = 0;
    if (pread(pagemap, entries, sizeof entries, (off_t)(word * sizeof entries)) !=
        (ssize_t)sizeof entries)
        die("pagemap cannot be read");
    for (unsigned i = 0; i < 64; i++)
        if (bits >> i & 1 && entries[i] >> 62)
            present++;
    return present;
}

static void tell(const char *moment)
{
    uint64_t empty = 0, present = 0, rss, lazy;
    resident(&rss, &lazy);
    for (uint64_t chunk = 0; chunk < nr_chunks; chunk++) {
        if (!chunk_used[chunk])
            continue;
        uint64_t first = chunk * CHUNK_WORDS;
        for (uint64_t word = first; word < first + CHUNK_WORDS; word++) {
            uint64_t bits = touched[word] & ~live[word];
            if (!bits)
                continue;
            empty += (unsigned)__builtin_popcountll(bits);
            present += count_present(word, bits);
        }
    }
    char line[160];
    snprintf(line, sizeof line, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
             moment, rss, lazy, empty, present);
    say(line);
}

static void sleep_until(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u),
                         .tv_nsec = (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pair(size_t size)
{
    void *object = malloc(size);
    if (!object)
        die("out of memory");
    touch(object);
    free(object);
}

static void wait_until(uint64_t moment, bool pairs)
{
    if (!pairs) {
        sleep_until(moment);
        return;
    }
    uint64_t next = now_ns();
    while (next < moment) {
        for (int i = 0; i < GROUP; i++)
            pair(drawn(16, 6));
        next += 1000000000u / GROUPS_A_SECOND;
        sleep_until(next < moment ? next : moment);
    }
}

static void grow(struct object *objects, uint64_t count, uint64_t large)
{
    uint64_t every = large ? count / large : count + 1;
    for (uint64_t i = 0; i < count; i++)
        objects[i] = make(i % every == every / 2);
    for (uint64_t i = count - 1; i > 0; i--) {
        uint64_t j = next_random(&random_state) % (i + 1);
        struct object swapped = objects[i];
        objects[i] = objects[j];
        objects[j] = swapped;
    }
}

int main(int argc, char **argv)
{
    uint64_t moments[MOMENTS], rss, lazy;
    int nr_moments = 0;
    char line[64];
    if (argc < 5 || argc > 4 + MOMENTS)
        die("usage: rest OBJECTS LARGE pairs|idle MS...");
    uint64_t large = strtoull(argv[2], NULL, 10);
    uint64_t count = strtoull(argv[1], NULL, 10) + large;
    bool pairs = strcmp(argv[3], "pairs") == 0;
    if (count < KEPT_ONE_IN || (!pairs && strcmp(argv[3], "idle") != 0))
        die("at least 100 objects, and `pairs` or `idle`");
    for (int i = 4; i < argc; i++)
        moments[nr_moments++] = strtoull(argv[i], NULL, 10);

    page_shift = (unsigned)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
    uint64_t nr_words = (1ull << (ADDRESS_BITS - page_shift)) / 64;
    nr_chunks = nr_words / CHUNK_WORDS;
    touched = map(nr_words * sizeof *touched);
    live = map(nr_words * sizeof *live);
    chunk_used = map(nr_chunks);
    struct object *objects = map(count * sizeof *objects);
    pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (pagemap < 0)
        die("no pagemap");

    grow(objects, count, large);
    uint64_t kept = count / KEPT_ONE_IN;
    for (uint64_t i = 0; i < kept; i++)
        mark(live, &objects[i]);
    own_kib = count * sizeof *objects / 1024;
    resident(&rss, &lazy);
    snprintf(line, sizeof line, "peak %" PRIu64 " %u\n", rss, 1u << page_shift >> 10);
    say(line);

    for (uint64_t i = kept; i < count; i++)
        free(objects[i].start);
    uint64_t freed = now_ns();
    for (int i = 0; i < nr_moments; i++) {
        wait_until(freed + moments[i] * 1000000u, pairs);
        snprintf(line, sizeof line, "at %" PRIu64, moments[i]);
        tell(line);
    }
    if (!pairs) {
        pair(64);
        tell("call");
        pair(1 << 20);
        tell("slow");
    }
    for (uint64_t i = 0; i < kept; i++)
        if (*objects[i].start != 0x5a)
            die("an object that stays has other contents");
    _exit(0);
}
