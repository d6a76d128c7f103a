/* expect: at-once double-free */
/* Aligned objects: p, q, p. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = opaque(aligned_alloc(256, 256)), *q = opaque(aligned_alloc(256, 256));

    free(p);
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
