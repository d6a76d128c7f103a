/* expect: at-flush double-free */
/* A small object is freed twice, with another free between. */
/* env: SLABYARD_CHECK_FREES=0 */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(SMALL);

    free(p);
    free(q);
    free(p);
    return flush();
}
