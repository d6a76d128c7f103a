/* expect: warned double-free */
/* With `SLABYARD_ON_ERROR=report` a double free is reported and the program goes on. */
/* env: SLABYARD_ON_ERROR=report */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q;

    free(p);
    free(p);
    p = get(SMALL);
    q = get(SMALL);
    if (p == q)
        return 93;
    return flush();
}
