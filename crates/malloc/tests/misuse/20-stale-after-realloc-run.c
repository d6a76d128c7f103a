/* expect: at-once double-free */
/* The old pointer of a run is freed after realloc moved it. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(RUN), *q = opaque(realloc(p, 64));

    if (q == p)
        return 93;
    free(p);
    return flush();
}
