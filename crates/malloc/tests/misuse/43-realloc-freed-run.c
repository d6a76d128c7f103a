/* expect: at-once double-free */
/* A freed run is given to realloc. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(RUN);

    free(p);
    opaque(realloc(p, 900000));
    return flush();
}
