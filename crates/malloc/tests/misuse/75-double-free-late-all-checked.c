/* expect: at-once double-free */
/* Late in a program with `SLABYARD_CHECK_FREES` for all frees: p, q, p. */
/* env: SLABYARD_CHECK_FREES=4294967295 */
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
