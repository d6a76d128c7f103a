/* expect: warned double-free */
/* With `SLABYARD_ON_ERROR=report`, p, q, p is reported when the process ends. */
/* env: SLABYARD_ON_ERROR=report */
#include "misuse.h"

int main(void)
{
    begin();

    work();

    void *p = get(SMALL), *q = get(SMALL);

    free(p);
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
