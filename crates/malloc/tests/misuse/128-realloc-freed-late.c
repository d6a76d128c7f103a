/* expect: at-once use-after-free */
/* Late in a program, a freed object is given to realloc. */
#include "misuse.h"

int main(void)
{
    begin();

    work();

    void *p = get(SMALL), *q = get(SMALL);

    free(p);
    free(q);
    p = realloc(p, 10 * SMALL);
    after_bad_use();
    return 0;
}
