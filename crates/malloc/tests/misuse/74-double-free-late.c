/* expect: at-exit double-free */
/* Two objects are freed in turns late in a program: p, q, p. */
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
