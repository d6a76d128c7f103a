/* expect: fine none */
/* realloc is asked for more than there is: it is refused, and the old block is left. */
#include "misuse.h"

int main(void)
{
    begin();

    char *p = (char *)get(SMALL);

    if (opaque(realloc(p, (size_t)-1 / 2 + 1)) || p[0] != 1)
        return 93;
    free(p);
    after_bad_use();
    return 0;
}
