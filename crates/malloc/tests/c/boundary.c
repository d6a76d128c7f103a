/* An object at a multiple of 4 GiB, whose address has a low half of zeros, is an object
 * as any other: malloc's fast path tells it from none by that half, and leaves it to the
 * slow path.
 *
 * One CPU: what is freed on another stays in a sheaf there. */
#include "check.h"

#include <sched.h>

#define MIB ((size_t)1 << 20)
#define BOUNDARY ((uint64_t)1 << 32)

/* So many runs reach from any address to a boundary and beyond. */
enum { RUNS = 2 * 4096, OBJECTS = 1 << 20, SIZE = 64, AGAIN = 100 };

static void *runs[RUNS], *objects[OBJECTS];

static uint64_t boundary_in(void *run)
{
    uint64_t first = (uintptr_t)run;
    uint64_t at = (first / BOUNDARY + 1) * BOUNDARY;

    return first % BOUNDARY == 0 ? first : at < first + MIB ? at : 0;
}

int main(void)
{
    uint64_t wanted = 0;
    int nr_runs = 0, nr = 0, i;
    cpu_set_t here;

    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    CHECK(sched_setaffinity(0, sizeof here, &here) == 0, "cannot stay on a CPU");

    /* The first large blocks of a process are mappings until one of them is freed: a boundary
     * in one of those is no place for objects. */
    free(malloc(MIB));

    /* Nobody touches them: they are address space alone. */
    while (nr_runs < RUNS && !wanted) {
        runs[nr_runs] = malloc(MIB);
        if (!runs[nr_runs])
            abort();
        wanted = boundary_in(runs[nr_runs++]);
    }
    CHECK(wanted, "no run reaches a multiple of 4 GiB");
    free(runs[--nr_runs]);
    while (nr < OBJECTS && (nr == 0 || (uintptr_t)objects[nr - 1] != wanted))
        objects[nr++] = malloc(SIZE);
    CHECK((uintptr_t)objects[nr - 1] == wanted, "no object begins at a multiple of 4 GiB");

    /* It comes back each time. */
    for (i = 0; i < AGAIN; i++) {
        int last = nr - 1, n;

        free(objects[last]);
        for (n = last; n < OBJECTS; n++) {
            objects[n] = malloc(SIZE);
            if ((uintptr_t)objects[n] == wanted)
                break;
        }
        CHECK(n < OBJECTS, "the object is lost, round %d", i);
        memset((void *)(uintptr_t)wanted, i, SIZE);
        while (n > last)
            free(objects[--n]);
        objects[last] = (void *)(uintptr_t)wanted;
    }

    while (nr > 0)
        free(objects[--nr]);
    while (nr_runs > 0)
        free(runs[--nr_runs]);
    return finish("boundary");
}
