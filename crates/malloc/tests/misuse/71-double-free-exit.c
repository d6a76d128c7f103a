/* expect: at-once double-free */
/* A small object is freed twice, with another free between; nothing is flushed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(SMALL);

    free(p);
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
