/* expect: at-once double-free */
/* The old pointer of a small object is freed after realloc moved it. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q = opaque(realloc(p, 5000));

    if (q == p)
        return 93;
    free(p);
    return flush();
}
