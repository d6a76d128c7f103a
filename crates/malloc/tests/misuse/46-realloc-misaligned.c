/* expect: at-once misaligned */
/* A pointer off by one is given to realloc. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);

    opaque(realloc(behind(p, 1), 5000));
    return flush();
}
