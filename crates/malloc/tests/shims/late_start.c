/* Serves some sizes only after its constructor has run. */
#include "shim.h"

static int ready;

__attribute__((constructor)) static void begin(void)
{
    ready = 1;
}

void *malloc(size_t size)
{
    return ready || (size != 123 && size != 1000) ? __libc_malloc(size) : NULL;
}
