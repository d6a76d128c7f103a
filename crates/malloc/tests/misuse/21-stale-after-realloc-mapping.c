/* expect: at-once invalid-pointer */
/* The old pointer of a large block is freed after realloc moved it. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(MAPPING), *q = opaque(realloc(p, 64));

    if (q == p)
        return 93;
    free(p);
    return flush();
}
