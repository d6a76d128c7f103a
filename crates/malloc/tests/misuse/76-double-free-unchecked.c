/* expect: at-exit double-free */
/* With `SLABYARD_CHECK_FREES=0`: p, q, p. */
/* env: SLABYARD_CHECK_FREES=0 */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(SMALL);

    free(p);
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
