/* expect: at-flush double-free */
/* A small object is freed again after the first free went back to the slab. */
/* env: SLABYARD_CHECK_FREES=0 */
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
