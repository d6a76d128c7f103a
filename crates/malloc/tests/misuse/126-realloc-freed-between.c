/* expect: at-once use-after-free */
/* A freed object is given to realloc, after another free. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(SMALL);

    free(p);
    free(q);
    p = realloc(p, 10 * SMALL);
    after_bad_use();
    return 0;
}
