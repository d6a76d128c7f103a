/* expect: at-exit double-free */
/* The same late, with objects of some KiB. */
#include "misuse.h"

int main(void)
{
    begin();

    work();

    void *p = get(5000), *q = get(5000);

    free(p);
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
