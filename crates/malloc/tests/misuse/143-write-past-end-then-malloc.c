/* expect: not-caught overflow */
/* A write goes far past the last object, then more is asked for. */
#include "misuse.h"

int main(void)
{
    begin();

    char *p = (char *)get(SMALL);

    memset(opaque(p), 'A', SMALL + 200);
    p = (char *)get(5000);
    free(p);
    after_bad_use();
    return 0;
}
