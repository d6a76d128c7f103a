/* expect: at-once double-free */
/* The old pointer is freed after realloc moved it and others were freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(SMALL);
    void *moved = opaque(realloc(p, 10 * SMALL));

    free(q);
    free(p);
    free(moved);
    after_bad_use();
    return 0;
}
