/* expect: at-flush double-free */
/* A small object is freed twice; thousands of other frees later all sheaves are flushed. */
/* env: SLABYARD_CHECK_FREES=0 */
#include "misuse.h"

int main(void)
{
    begin();

    static void *others[20000];
    void *p;
    int n;

    for (n = 0; n < 20000; n++)
        others[n] = get(SMALL);
    p = get(SMALL);
    free(p);
    free(others[0]);
    free(p);
    after_bad_use();
    for (n = 1; n < 20000; n++)
        free(others[n]);
    malloc_trim(0);
    return 0;
}
