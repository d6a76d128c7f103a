/* expect: at-once use-after-free */
/* A freed small object is given to realloc. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);

    free(p);
    opaque(realloc(p, 5000));
    return flush();
}
