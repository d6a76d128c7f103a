/*
 * Two threads that do nothing but allocate and free, so that most of their time
 * is inside of the allocator's shortest way, while a third trims: what it takes
 * back must not be handed out a second time. Objects carry their owner's token.
 *
 *   marks [later=CALL:HOW] [list=NAME] [threads=2] [trims=2000] [meetings=0 [must]] [signals]
 *
 * When the threads are under way the call is refused, or all calls are deadly but
 * those of a list of refuse.h. Then so many trims are made at least, and more until so
 * many met a thread that ran at the same time: what is to be found needs that. Where
 * the machine is so busy that few do, for five seconds at most; with `must`, it is then
 * said that there is not enough of a machine. ATTACK_SHARE=N: the threads do an Nth of the
 * rounds, where each call takes many times as long.
 */
#include "refuse.h"
#include <signal.h>
#include <time.h>

enum { MOST_KEPT = 200, NR_SIZES = 4, NR_WAYS = 6 };

static const size_t sizes[NR_SIZES] = { 16, 48, 128, 400 };
/* Which race is lost most easily depends on the machine: how many objects a thread takes
 * at once, of how many sizes. */
static const struct {
    int kept, nr_sizes;
} ways[NR_WAYS] = { { 24, 4 }, { 8, 1 }, { 200, 4 }, { 2, 1 }, { 24, 1 }, { 8, 4 } };
static long nr_rounds[MAX_THREADS];
static long first_rounds = 1000, rounds_of_a_way = 4000;
static int over;

static void *take(size_t size, uint64_t token)
{
    uint64_t *p = opaque(malloc(size));

    CHECK(p, "no memory for %zu bytes", size);
    if (!p)
        _exit(1);
    __atomic_store_n(&p[0], token, __ATOMIC_RELAXED);
    __atomic_store_n(&p[1], token, __ATOMIC_RELAXED);
    return p;
}

static void give(void *object, uint64_t token)
{
    uint64_t *p = object;
    uint64_t first = __atomic_load_n(&p[0], __ATOMIC_RELAXED);
    uint64_t second = __atomic_load_n(&p[1], __ATOMIC_RELAXED);

    CHECK(first == token && second == token, "%p holds %#llx and %#llx, not %#llx", object,
          (unsigned long long)first, (unsigned long long)second, (unsigned long long)token);
    /* Nobody's from here on. */
    __atomic_store_n(&p[0], ~token, __ATOMIC_RELAXED);
    __atomic_store_n(&p[1], ~token, __ATOMIC_RELAXED);
    free(object);
}

static void handler(int number)
{
    /* Its own stack tells one thread from another. */
    uint64_t token = (uint64_t)(uintptr_t)&number;
    void *a = take(sizes[0], token), *b = take(sizes[2], token + 1);

    give(a, token);
    give(b, token + 1);
}

static void *churn(void *argument)
{
    uint64_t me = (uint64_t)(uintptr_t)argument, token = (me + 1) << 48;
    void *kept[MOST_KEPT];
    long round;
    int n, nr;

    for (round = 0; !__atomic_load_n(&over, __ATOMIC_RELAXED); round++) {
        size_t way = (size_t)(round / rounds_of_a_way) % NR_WAYS;
        size_t size = sizes[round % ways[way].nr_sizes];

        nr = ways[way].kept;
        for (n = 0; n < nr; n++)
            kept[n] = take(size, token + (unsigned)n);
        for (n = 0; n < nr; n++)
            give(kept[n], token + (unsigned)n);
        token += MOST_KEPT;
        __atomic_store_n(&nr_rounds[me], round, __ATOMIC_RELAXED);
    }
    return NULL;
}

static int all_made(int nr, long rounds)
{
    int n;

    for (n = 0; n < nr; n++)
        if (__atomic_load_n(&nr_rounds[n], __ATOMIC_RELAXED) < rounds)
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    int nr = (int)number_of(argv, "threads", 2), n, with_signals = has_word(argv, "signals");
    long trims = number_of(argv, "trims", 2000), i;
    long meetings = number_of(argv, "meetings", 0), met = 0;
    long share = getenv("ATTACK_SHARE") ? atol(getenv("ATTACK_SHARE")) : 1;
    time_t late = time(NULL) + 5;
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    pthread_t threads[MAX_THREADS];

    (void)argc;
    first_rounds /= share;
    rounds_of_a_way /= share;
    sigaction(SIGUSR1, &action, NULL);
    for (n = 0; n < nr; n++)
        if (pthread_create(&threads[n], NULL, churn, (void *)(uintptr_t)n))
            not_possible("a thread");
    while (!all_made(nr, first_rounds))
        usleep(100);
    malloc_trim(0);
    change_the_rules(argv);
    for (i = 0; i < trims || !all_made(nr, first_rounds + NR_WAYS * rounds_of_a_way)
                || (met < meetings && time(NULL) < late); i++) {
        long before = __atomic_load_n(&nr_rounds[i % nr], __ATOMIC_RELAXED);

        malloc_trim(0);
        met += before != __atomic_load_n(&nr_rounds[i % nr], __ATOMIC_RELAXED);
        /* Not at each trim: a thread that handles signals alone makes no round. */
        if (with_signals && i % 8 < 2)
            pthread_kill(threads[i % nr], SIGUSR1);
    }
    errno = EBUSY;
    if (met < meetings && has_word(argv, "must") && !nr_failed)
        not_possible("two threads at the same time");
    if (has_word(argv, "counts"))
        fprintf(stderr, "%ld trims, %ld meetings\n", i, met);
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (n = 0; n < nr; n++)
        pthread_join(threads[n], NULL);
    return finish("marks");
}
