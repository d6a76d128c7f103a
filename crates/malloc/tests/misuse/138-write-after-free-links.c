/* expect: not-caught use-after-free */
/* A freed object is written over, and its place handed out again. */
#include "misuse.h"

int main(void)
{
    begin();

    char *p = (char *)get(SMALL), *q = (char *)get(SMALL);

    free(q);
    free(p);
    memset(opaque(p), 'A', SMALL);
    p = (char *)get(SMALL);
    q = (char *)get(SMALL);
    after_bad_use();
    return 0;
}
