/* expect: at-once use-after-free */
/* A freed object is given to reallocarray, after another free. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(SMALL);

    free(p);
    free(q);
    p = reallocarray(p, 100, 10);
    after_bad_use();
    return 0;
}
