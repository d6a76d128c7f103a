/* expect: at-once double-free */
/* An object is freed again after a trim, with another free between. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(SMALL), *kept = get(SMALL);

    free(p);
    malloc_trim(0);
    free(q);
    free(p);
    free(kept);
    after_bad_use();
    return 0;
}
