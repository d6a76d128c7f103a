/*
 * A program that registers areas of restartable sequences itself (rseq(2)), where the C library does
 * not: in the main thread and in others, before a thread's first allocation and after. The system
 * writes CPU numbers into its areas, and allocations go on.
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#ifndef SYS_rseq
#define SYS_rseq 334
#endif
#define SIGNATURE 0x53053053

struct area {
    uint32_t cpu_id_start, cpu_id;
    uint64_t rseq_cs;
    uint32_t flags, rest[3];
} __attribute__((aligned(32)));

static __thread struct area mine = { 0, (uint32_t)-1, 0, 0, {0} };
static int is_possible = 1;

static void use(void)
{
    void *object[500];
    int turn, n;

    for (turn = 0; turn < 200; turn++) {
        for (n = 0; n < 500; n++) {
            object[n] = malloc(16 + (size_t)(n * 7 % 900));
            CHECK(object[n], "no memory");
            memset(object[n], n, 16);
        }
        for (n = 0; n < 500; n++) {
            CHECK(*(unsigned char *)object[n] == (unsigned char)n, "another's byte");
            free(object[n]);
        }
    }
}

static void join(const char *when)
{
    long done = syscall(SYS_rseq, &mine, 32, 0, SIGNATURE);

    if (done && errno == ENOSYS)
        is_possible = 0;
    CHECK(done == 0 || !is_possible, "%s: %s", when, strerror(errno));
    if (done == 0)
        CHECK(mine.cpu_id < 1u << 16, "%s: the CPU number is %u", when, mine.cpu_id);
}

static void *before(void *argument)
{
    join("before the first allocation");
    use();
    return argument;
}

static void *after(void *argument)
{
    use();
    join("after the first allocation");
    use();
    if (is_possible)
        CHECK(mine.cpu_id < 1u << 16, "the CPU number is %u", mine.cpu_id);
    return argument;
}

static void *not(void *argument)
{
    use();
    return argument;
}

int main(void)
{
    void *(*const begins[])(void *) = { before, after, not, after, before };
    pthread_t id[5];
    size_t n;

    use();
    join("in the main thread");
    use();
    for (n = 0; n < 5; n++)
        CHECK(pthread_create(&id[n], NULL, begins[n], NULL) == 0, "a thread");
    use();
    for (n = 0; n < 5; n++)
        pthread_join(id[n], NULL);
    return finish("own_area");
}
