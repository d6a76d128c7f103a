/* expect: faults none */
/* The old pointer of a block of 200 000 bytes is read after realloc moved it. */
#include "misuse.h"

int main(void)
{
    begin();

    volatile char *p = (char *)get(200000), *wall = (char *)get(200000);
    char *moved = (char *)opaque(realloc((void *)p, 40 << 20));

    (void)wall;
    if (moved != p)
        (void)p[100000];
    after_bad_use();
    return 0;
}
