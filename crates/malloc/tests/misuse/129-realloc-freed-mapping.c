/* expect: at-once invalid-pointer */
/* A freed large block is given to realloc. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(MAPPING);

    free(p);
    p = realloc(p, 2 * MAPPING);
    after_bad_use();
    return 0;
}
