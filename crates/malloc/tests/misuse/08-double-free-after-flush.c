/* expect: at-flush double-free */
/* A small object is freed again after the first free went back to the slab. */
#include "misuse.h"

int main(void)
{
    begin();

    void *neighbour = get(SMALL), *p = get(SMALL);

    free(p);
    malloc_trim(0);
    free(p);
    memset(neighbour, 2, SMALL);
    return flush();
}
