/* expect: not-caught write */
/* A freed object is written to. */
#include "misuse.h"

int main(void)
{
    begin();

    unsigned char *p = get(SMALL);

    free(p);
    memset(opaque(p), 0xff, SMALL);
    return flush();
}
