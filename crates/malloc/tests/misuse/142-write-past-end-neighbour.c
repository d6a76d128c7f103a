/* expect: not-caught overflow */
/* A write goes through a neighbour, which is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    char *p = (char *)get(SMALL), *q = (char *)get(SMALL), *low = p < q ? p : q, *high = p < q ? q : p;

    memset(opaque(low), 'A', 2 * SMALL);
    free(high);
    free(low);
    after_bad_use();
    return 0;
}
