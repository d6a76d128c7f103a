/* expect: at-once use-after-free */
/* The usable size of a freed object is asked for, after another free. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(SMALL);
    volatile size_t size;

    free(p);
    free(q);
    size = malloc_usable_size(p);
    (void)size;
    after_bad_use();
    return 0;
}
