/*
 * Pages of what calloc gives: those of tables that replace others are faulted in once, though
 * they are read before they are written; those of one that nobody writes stay away.
 */
#include "check.h"
#include <malloc.h>
#include <sys/resource.h>

enum { PAGE = 4096, TABLES = 5, ROUNDS = 8, TABLE = 200 << 10, SPARSE = 64 << 20 };

static long faults(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static void read_all(const volatile char *at, size_t size)
{
    size_t page;

    for (page = 0; page < size; page += PAGE)
        CHECK(at[page] == 0, "page %zu of %zu is not zero", page / PAGE, size / PAGE);
}

static void write_all(volatile char *at, size_t size)
{
    size_t page;

    for (page = 0; page < size; page += PAGE)
        at[page] = 1;
}

/* Tables that replace those of the round before, whose pages went back to the system. */
static long replace_tables(char **table)
{
    long before;
    int n;

    for (n = 0; n < TABLES; n++)
        free(table[n]);
    malloc_trim(0);
    before = faults();
    for (n = 0; n < TABLES; n++) {
        table[n] = calloc(TABLE / 8, 8);
        CHECK(table[n], "table %d", n);
        read_all(table[n], TABLE);
        write_all(table[n], TABLE);
    }
    return faults() - before;
}

int main(void)
{
    const long pages = (long)TABLES * TABLE / PAGE;
    char *table[TABLES] = {0}, *sparse;
    long taken = 0, resident;
    int n;

    replace_tables(table);
    for (n = 0; n < ROUNDS; n++)
        taken += replace_tables(table);
    CHECK(taken < ROUNDS * (pages + pages / 4), "%ld faults for %ld pages", taken,
          ROUNDS * pages);

    resident = resident_kib();
    sparse = calloc(1, SPARSE);
    CHECK(sparse, "no sparse table");
    read_all(sparse, SPARSE);
    resident = resident_kib() - resident;
    CHECK(resident < 1024, "%ld KiB for %d that nobody wrote", resident, SPARSE >> 10);

    free(sparse);
    for (n = 0; n < TABLES; n++)
        free(table[n]);
    return finish("faults");
}
