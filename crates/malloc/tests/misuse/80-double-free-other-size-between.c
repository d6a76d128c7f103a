/* expect: at-once double-free */
/* A small object is freed twice, with an object of another size between. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(3 * SMALL);

    free(p);
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
