/* expect: at-once double-free */
/* Objects of the smallest class: p, q, p. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(8), *q = get(8);

    free(p);
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
