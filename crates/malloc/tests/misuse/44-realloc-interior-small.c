/* expect: at-once interior */
/* A pointer into a small object is given to realloc. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);

    opaque(realloc(behind(p, 16), 5000));
    return flush();
}
