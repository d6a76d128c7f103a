/* expect: at-once double-free */
/* `realloc(p, 0)` frees, then `free` does it again. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);

    if (opaque(realloc(p, 0)))
        return 93;
    free(p);
    return flush();
}
