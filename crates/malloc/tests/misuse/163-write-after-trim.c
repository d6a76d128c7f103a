/* expect: not-caught write */
/* A freed object is written to after malloc_trim gave its slab back. */
#include "misuse.h"

int main(void)
{
    begin();

    unsigned char *p = get(1500);

    free(p);
    malloc_trim(0);
    memset(opaque(p), 0xff, 1500);
    after_bad_use();
    return 0;
}
