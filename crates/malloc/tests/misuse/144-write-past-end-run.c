/* expect: not-caught overflow */
/* A write goes past the end of a block of 50 000 bytes. */
#include "misuse.h"

int main(void)
{
    begin();

    char *p = (char *)get(50000), *q = (char *)get(50000);

    memset(opaque(p < q ? p : q), 'A', 50000 + 64);
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
