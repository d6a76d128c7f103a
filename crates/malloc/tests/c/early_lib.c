/*
 * A library that allocates whenever it can: in a constructor before others, in
 * thread storage, and in its destructor. `early.c` is linked with one build of
 * it, and opens another one, as `early_plugin.so`, a thousand times.
 */
#include <stdlib.h>
#include <string.h>

#ifdef PLUGIN
#define NAME(name) plugin_##name
#else
#define NAME(name) linked_##name
#endif

static char *from_constructor;
static void *large;
static __thread char per_thread[3000];

__attribute__((constructor(101))) static void begin(void)
{
    free(NULL);
    from_constructor = malloc(100);
    memset(from_constructor, 'c', 100);
    large = malloc(2 << 20);
}

__attribute__((destructor)) static void end(void)
{
    free(from_constructor);
    free(large);
}

/* What the constructor wrote, for the program to check. */
const char *NAME(written)(void)
{
    return from_constructor;
}

/* Memory that outlives the library. The first touch of the thread storage
 * makes the loader allocate. */
void *NAME(keep)(size_t size)
{
    memset(per_thread, (int)size, sizeof per_thread);
    return calloc(1, size);
}

/* Frees memory of the program, from within the library. */
void NAME(take)(void *p)
{
    free(p);
}
