/* calloc leaves one byte dirty; small blocks are spared for the loader. */
#include "shim.h"

void *calloc(size_t nr, size_t size)
{
    char *p = __libc_calloc(nr, size);

    if (p && nr * size >= 2048)
        p[nr * size / 2] = 1;
    return p;
}
