/* Failing, tables and threads: the part of life.h that is not in a hurry. */
#include "life.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* By _exit: after a broken heap, handlers of exit may hang. */
void fail(const char *format, ...)
{
    char text[256] = "life: ";
    size_t used = strlen(text);
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
