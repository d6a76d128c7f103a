/* strings: a hash table of strings, as in interpreters and compilers.
 *
 * Names of 8 to 60 bytes are interned, looked up and dropped; the table
 * doubles and moves all entries when it is full. A name follows from its
 * number, so that the whole string is checked.
 */
#include "life.h"

enum { NAMES = 260000, ROUNDS = 2, FIRST = 64, LONGEST = 64 };

struct entry {
    struct entry *next;
    char *name;
    uint32_t hash, length;
};

struct table {
    struct entry **buckets;
    size_t nr_buckets, used;
};

/* 8 to 60 letters that begin with the number; the length excludes the 0. */
static uint32_t spell(uint64_t number, uint64_t seed, char *name)
{
    uint64_t noise = (number + seed) * 0x9e3779b97f4a7c15;
    uint32_t length = 8 + (uint32_t)(noise >> 58) % 53;
    for (uint32_t i = 0; i < length; i++) {
        unsigned from = i < 8 ? (unsigned)(number >> 4 * i) : (unsigned)(noise >> i % 56);
        name[i] = (char)('a' + from % 16);
    }
    name[length] = 0;
    return length;
}

/* FNV-1a (Fowler, Noll, Vo). */
static uint32_t hash_of(const char *name)
{
    uint32_t hash = 2166136261u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

static struct entry **place_of(const struct table *table, const char *name, uint32_t hash)
{
    struct entry **place = &table->buckets[hash & (table->nr_buckets - 1)];
    size_t steps = 0;
    for (; *place && ((*place)->hash != hash || strcmp((*place)->name, name)); steps++) {
        if (steps > table->used)
            fail("a chain of entries goes in a circle");
        place = &(*place)->next;
    }
    return place;
}

static void resize(struct table *table, size_t nr_buckets)
{
    struct entry **buckets = got(calloc(nr_buckets, sizeof *buckets), nr_buckets * sizeof *buckets);
    for (size_t i = 0; i < table->nr_buckets; i++) {
        for (struct entry *entry = table->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            struct entry **bucket = &buckets[entry->hash & (nr_buckets - 1)];
            entry->next = *bucket;
            *bucket = entry;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->nr_buckets = nr_buckets;
}

/* The number of allocations. */
static uint64_t intern(struct table *table, uint64_t number, uint64_t seed)
{
    char name[LONGEST];
    uint32_t length = spell(number, seed, name), hash = hash_of(name);
    uint64_t ops = 0;
    if (*place_of(table, name, hash))
        return 0;
    if (table->used == table->nr_buckets) {
        resize(table, 2 * table->nr_buckets);
        ops++;
    }
    struct entry *entry = got(malloc(sizeof *entry), sizeof *entry);
    entry->name = got(malloc(length + 1), length + 1);
    memcpy(entry->name, name, length + 1);
    entry->hash = hash;
    entry->length = length;
    struct entry **bucket = &table->buckets[hash & (table->nr_buckets - 1)];
    entry->next = *bucket;
    *bucket = entry;
    table->used++;
    return ops + 2;
}

static void drop(struct table *table, uint64_t number, uint64_t seed)
{
    char name[LONGEST];
    uint32_t length = spell(number, seed, name);
    struct entry **place = place_of(table, name, hash_of(name)), *entry = *place;
    if (!entry || entry->length != length)
        fail("the name %s is lost", name);
    *place = entry->next;
    free(entry->name);
    free(entry);
    table->used--;
}

/* All interned, one half dropped, the other found; then as many new ones. */
static uint64_t run(const struct job *job)
{
    uint64_t ops = 0, rounds = scaled(job, ROUNDS);
    for (uint64_t round = 0; round < rounds; round++) {
        struct table table = {.buckets = NULL};
        resize(&table, FIRST);
        ops++;
        for (uint64_t n = 0; n < NAMES; n++)
            ops += intern(&table, n, job->seed);
        for (uint64_t n = 0; n < NAMES; n += 2)
            drop(&table, n, job->seed);
        for (uint64_t n = NAMES; n < NAMES + NAMES / 2; n++)
            ops += intern(&table, n, job->seed);
        for (uint64_t n = 1; n < NAMES; n += 2)
            drop(&table, n, job->seed);
        for (uint64_t n = NAMES; n < NAMES + NAMES / 2; n++)
            drop(&table, n, job->seed);
        if (table.used)
            fail("%zu names are left", table.used);
        free(table.buckets);
    }
    return ops;
}

const struct load load_strings = {
    .name = "strings",
    .threads = 1,
    .words = "a hash table of 260,000 strings of 8 to 60 bytes that grows by moving, half of "
             "them replaced (18 MB live)",
    .run = run,
};
