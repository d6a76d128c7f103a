/* expect: at-once interior */
/* A pointer into a run is given to realloc. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(RUN);

    opaque(realloc(behind(p, 4096), 900000));
    return flush();
}
