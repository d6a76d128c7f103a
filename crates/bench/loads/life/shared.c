/* Failing, numbers, tables and threads: the part of life.h that is not in a hurry. */
#include "life.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* By _exit: after a broken heap, handlers of exit may hang. */
void fail(const char *format, ...)
{
    char text[256];
    size_t used = (size_t)snprintf(text, sizeof text / 2, "%.32s: ", program_invocation_short_name);
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text + used, sizeof text - used - 1, format, arguments);
    va_end(arguments);
    if (n > 0)
        used += (size_t)n < sizeof text - used - 1 ? (size_t)n : sizeof text - used - 2;
    text[used++] = '\n';
    if (write(STDERR_FILENO, text, used) < 0)
        _exit(1);
    _exit(1);
}

void spoiled(const void *at, size_t size)
{
    fail("the object of %zu bytes at %p is not as it was left", size, at);
}

bool parse_scale(const char *word, double *scale)
{
    char *end;
    *scale = strtod(word, &end);
    return end != word && !*end && *scale > 0 && *scale <= 1e6;
}

bool parse_number(const char *word, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(word, &end, 10);
    return *word >= '0' && *word <= '9' && !*end && !errno;
}

void *map_table(size_t nr, size_t size)
{
    void *table = mmap(NULL, nr * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED)
        fail("no table of %zu times %zu bytes", nr, size);
    return table;
}

void unmap_table(void *table, size_t nr, size_t size)
{
    munmap(table, nr * size);
}

void run_threads(unsigned nr, void *(*body)(void *), void *contexts, size_t size)
{
    enum { MOST = 64 };
    pthread_t threads[MOST];
    if (nr > MOST)
        fail("%u threads are too many", nr);
    for (unsigned i = 0; i < nr; i++)
        if (pthread_create(&threads[i], NULL, body, (char *)contexts + i * size))
            fail("thread %u of %u does not start", i + 1, nr);
    for (unsigned i = 0; i < nr; i++)
        pthread_join(threads[i], NULL);
}
