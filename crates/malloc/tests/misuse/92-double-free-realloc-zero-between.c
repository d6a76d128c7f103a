/* expect: at-once double-free */
/* `realloc(p, 0)` frees, then another object is freed, then `free` does it again. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(SMALL);

    if (realloc(p, 0))
        return 93;
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
