/* expect: at-once double-free */
/* Objects of calloc: p, q, p. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = opaque(calloc(10, 10)), *q = opaque(calloc(10, 10));

    free(p);
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
