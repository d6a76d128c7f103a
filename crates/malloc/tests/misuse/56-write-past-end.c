/* expect: not-caught write */
/* A write goes past the end into the next object. */
#include "misuse.h"

int main(void)
{
    begin();

    unsigned char *p = get(SMALL);

    memset(opaque(p), 0xff, SMALL + 16);
    free(p);
    return flush();
}
