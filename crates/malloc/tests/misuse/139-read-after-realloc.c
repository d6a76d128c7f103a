/* expect: not-caught use-after-free */
/* The old pointer of a small object is read after realloc moved it. */
#include "misuse.h"

int main(void)
{
    begin();

    volatile char *p = (char *)get(SMALL);
    char *moved = (char *)opaque(realloc((void *)p, 10 * SMALL));

    (void)moved;
    (void)p[8];
    after_bad_use();
    return 0;
}
