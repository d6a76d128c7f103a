/* expect: not-caught overflow */
/* Eight bytes behind an object are written to, then it and its neighbour are freed. */
#include "misuse.h"

int main(void)
{
    begin();

    char *p = (char *)get(56), *q = (char *)get(56);

    memset(opaque(p), 'A', 56 + 8);
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
