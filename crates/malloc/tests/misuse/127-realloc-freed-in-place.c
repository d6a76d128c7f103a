/* expect: at-once use-after-free */
/* A freed object is given to realloc with the size that it had. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);

    free(p);
    p = realloc(p, SMALL);
    after_bad_use();
    return 0;
}
