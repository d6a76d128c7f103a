/* Page walks of a load: its own reads and writes through a model of the two levels of TLB that a
 * processor has for data. `life` is compiled with -fsanitize=kernel-address, which has the compiler
 * put a call before each access, and is linked with the functions called here in place of a
 * sanitizer's; what the allocator itself and the C library access is not seen, but for memset and
 * memcpy.
 *
 *   first level    64 entries for pages of 4 KiB, 32 for those of 2 MiB, 4 ways
 *   second level   1536 entries for both, 12 ways: Intel's Skylake (Optimization Reference Manual,
 *                  2.6.2). WALKS_SECOND=N has other ways: N of 128 sets
 *
 * Each thread has a TLB of its own, and the least recently used entry of a set goes. Which pages
 * are huge is read from /proc/self/pagemap (pagemap.rst of the kernel): all 512 pages of an extent
 * are present, and their frames follow one another from an aligned one on. That needs
 * CAP_SYS_ADMIN. It is looked up anew after a while, as pages may come and go.
 *
 * WALKS_CHECK=1 runs known strides in place of a load: the counts must be as computed by hand.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALL_SHIFT = 12, HUGE_SHIFT = 21, PAGES = 512, MOST_WAYS = 64 };
enum { EXTENTS = 4096, LOOK_AGAIN = 1 << 17 };

struct counts {
    uint64_t accesses, misses, walks, huge;
};

/* Entries are the page's number and, in the lowest bit, whether it is huge; 0 is none. */
struct tlb {
    uint64_t small_entries[64], huge_entries[32], second_entries[128 * MOST_WAYS];
    struct {
        uint64_t extent, looked_at;
        bool huge;
    } extents[EXTENTS];
    struct counts counts;
    bool is_added_at_exit;
};

static _Thread_local struct tlb tlb;
static _Atomic uint64_t sums[4];
static unsigned second_ways = 12;
static int pagemap = -1;
static bool ready;
static pthread_key_t at_exit;

/* The last used of a set is the first. */
static bool hits(uint64_t *set, unsigned ways, uint64_t page)
{
    uint64_t before = page;
    for (unsigned way = 0; way < ways; way++) {
        uint64_t here = set[way];
        set[way] = before;
        if (here == page)
            return true;
        before = here;
    }
    return false;
}

/* Whether an extent is one huge page; false of `known` if its pages are not there yet. */
static bool look_at(uint64_t extent, bool *known)
{
    enum { PRESENT = 63 };
    uint64_t pages[PAGES];
    ssize_t size = pread(pagemap, pages, sizeof pages, (off_t)(extent * PAGES * sizeof *pages));
    *known = size == sizeof pages;
    uint64_t frame = pages[0] & ((UINT64_C(1) << 55) - 1);
    bool huge = *known && frame && frame % PAGES == 0;
    for (unsigned i = 0; huge && i < PAGES; i++)
        huge = pages[i] >> PRESENT && (pages[i] & ((UINT64_C(1) << 55) - 1)) == frame + i;
    return huge;
}

static bool is_huge(uint64_t address)
{
    uint64_t extent = address >> HUGE_SHIFT, now = tlb.counts.accesses;
    __typeof__(&tlb.extents[0]) place = &tlb.extents[extent % EXTENTS];
    /* What was just seen may not be there yet: it is looked at soon again. */
    bool old = place->extent != extent || now - place->looked_at > (place->huge ? LOOK_AGAIN : 4096);
    if (old) {
        bool known;
        place->huge = look_at(extent, &known);
        place->extent = extent;
        place->looked_at = now;
    }
    return place->huge;
}

static void flush(void *unused)
{
    (void)unused;
    const uint64_t *counts = &tlb.counts.accesses;
    for (unsigned i = 0; i < 4; i++)
        atomic_fetch_add(&sums[i], counts[i]);
    memset(&tlb.counts, 0, sizeof tlb.counts);
    memset(tlb.extents, 0, sizeof tlb.extents);
    tlb.is_added_at_exit = false;
}

static void access_page(uint64_t address)
{
    if (!ready)
        return;
    if (!tlb.is_added_at_exit) {
        tlb.is_added_at_exit = true;
        pthread_setspecific(at_exit, &tlb);
    }
    tlb.counts.accesses++;
    bool huge = is_huge(address);
    tlb.counts.huge += huge;
    uint64_t number = address >> (huge ? HUGE_SHIFT : SMALL_SHIFT), page = number << 1 | huge;
    uint64_t *first = huge ? tlb.huge_entries + number % 8 * 4 : tlb.small_entries + number % 16 * 4;
    if (hits(first, 4, page))
        return;
    tlb.counts.misses++;
    tlb.counts.walks += !hits(tlb.second_entries + number % 128 * second_ways, second_ways, page);
}

static void access_range(const void *at, size_t size)
{
    uint64_t first = (uint64_t)at, last = first + size - (size > 0);
    for (uint64_t page = first >> SMALL_SHIFT; size && page <= last >> SMALL_SHIFT; page++)
        access_page(page << SMALL_SHIFT | (page == first >> SMALL_SHIFT ? first & 4095 : 0));
}

#define CALLED(size)                                                                               \
    void __asan_load##size##_noabort(uint64_t at);                                                 \
    void __asan_load##size##_noabort(uint64_t at) { access_range((void *)at, size); }              \
    void __asan_store##size##_noabort(uint64_t at);                                                \
    void __asan_store##size##_noabort(uint64_t at) { access_range((void *)at, size); }
CALLED(1) CALLED(2) CALLED(4) CALLED(8) CALLED(16)

void __asan_loadN_noabort(void *at, size_t size);
void __asan_loadN_noabort(void *at, size_t size) { access_range(at, size); }
void __asan_storeN_noabort(void *at, size_t size);
void __asan_storeN_noabort(void *at, size_t size) { access_range(at, size); }
void __asan_handle_no_return(void);
void __asan_handle_no_return(void) {}

void *__real_memset(void *to, int byte, size_t size);
void *__wrap_memset(void *to, int byte, size_t size);
void *__wrap_memset(void *to, int byte, size_t size)
{
    access_range(to, size);
    return __real_memset(to, byte, size);
}

void *__real_memcpy(void *to, const void *from, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size);
void *__wrap_memcpy(void *to, const void *from, size_t size)
{
    access_range(to, size);
    access_range(from, size);
    return __real_memcpy(to, from, size);
}

_Noreturn static void stop(const char *words, int status)
{
    dprintf(STDERR_FILENO, "walks: %s\n", words);
    _exit(status);
}

/* `rounds` times over `nr` pages, a page a step; what walks after the first time. */
static struct counts stride(unsigned nr, unsigned rounds, int advice)
{
    size_t bytes = (size_t)nr << SMALL_SHIFT, room = bytes + (4 << 20);
    char *map = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        stop("no memory", 1);
    char *at = (char *)(((uintptr_t)map + (2 << 20) - 1) >> HUGE_SHIFT << HUGE_SHIFT);
    madvise(at, bytes, advice);
    __real_memset(at, 1, bytes);
    memset(&tlb, 0, sizeof tlb);
    struct counts first = {0};
    for (unsigned round = 0; round <= rounds; round++) {
        for (unsigned i = 0; i < nr; i++)
            access_page((uint64_t)at + ((uint64_t)i << SMALL_SHIFT));
        if (!round)
            first = tlb.counts;
    }
    munmap(map, room);
    return (struct counts){tlb.counts.accesses - first.accesses, tlb.counts.misses - first.misses,
                           tlb.counts.walks - first.walks, tlb.counts.huge - first.huge};
}

static void expect(struct counts found, uint64_t misses, uint64_t walks, uint64_t huge)
{
    if (found.misses != misses || found.walks != walks || found.huge != huge) {
        dprintf(STDERR_FILENO, "walks: %" PRIu64 " misses, %" PRIu64 " walks, %" PRIu64
                               " huge; computed: %" PRIu64 ", %" PRIu64 ", %" PRIu64 "\n",
                found.misses, found.walks, found.huge, misses, walks, huge);
        _exit(1);
    }
}

static void check(void)
{
    /* 64 pages fit into the first level, 1536 into the second; of one more set the oldest goes
     * each time, so that all of them walk. Aligned extents spread over the sets. */
    expect(stride(64, 4, MADV_NOHUGEPAGE), 0, 0, 0);
    expect(stride(1536, 4, MADV_NOHUGEPAGE), 4 * 1536, 0, 0);
    expect(stride(1536 + 128, 4, MADV_NOHUGEPAGE), 4 * 1664, 4 * 1664, 0);
    /* 8192 pages of 4 KiB are 16 huge ones. */
    expect(stride(8192, 4, MADV_HUGEPAGE), 0, 0, 4 * 8192);
    stop("as computed", 0);
}

__attribute__((constructor)) static void begin(void)
{
    const char *ways = getenv("WALKS_SECOND");
    if (ways)
        second_ways = (unsigned)atoi(ways);
    if (!second_ways || second_ways > MOST_WAYS)
        stop("WALKS_SECOND: 1 to 64", 2);
    pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    uint64_t here = 0;
    off_t at = (off_t)(((uintptr_t)&tlb >> SMALL_SHIFT) * sizeof here);
    if (pread(pagemap, &here, sizeof here, at) != sizeof here || !(here & (UINT64_MAX >> 9)))
        stop("/proc/self/pagemap has no frames: this needs CAP_SYS_ADMIN", 3);
    pthread_key_create(&at_exit, flush);
    ready = true;
    if (getenv("WALKS_CHECK"))
        check();
}

__attribute__((destructor)) static void end(void)
{
    flush(NULL);
    ready = false;
    dprintf(STDOUT_FILENO,
            "walks %" PRIu64 " accesses %" PRIu64 " misses %" PRIu64 " walks %" PRIu64 " huge\n",
            sums[0], sums[1], sums[2], sums[3]);
}
