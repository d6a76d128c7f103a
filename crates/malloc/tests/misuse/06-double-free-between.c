/* expect: at-flush double-free */
/* A small object is freed twice, with another free between. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(SMALL);

    free(p);
    free(q);
    free(p);
    return flush();
}
