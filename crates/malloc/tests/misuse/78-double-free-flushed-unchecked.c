/* expect: at-exit double-free */
/* An object is freed again late, after its first free went back to the slab. */
#include "misuse.h"

int main(void)
{
    begin();

    work();

    void *p = get(SMALL), *q = get(SMALL), *kept = get(SMALL);

    free(p);
    malloc_trim(0);
    free(q);
    free(p);
    free(q = get(3 * SMALL));
    after_bad_use();
    return 0;
}
