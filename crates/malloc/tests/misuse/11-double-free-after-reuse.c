/* expect: not-caught double-free */
/* A small object is freed by its old owner after a new one got it. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q;

    free(p);
    q = get(SMALL);
    if (q != p)
        return 93;
    free(p);
    return flush();
}
