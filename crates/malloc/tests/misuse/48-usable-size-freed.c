/* expect: at-once use-after-free */
/* The usable size of a freed small object is asked for. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);
    volatile size_t size;

    free(p);
    size = malloc_usable_size(p);
    (void)size;
    return flush();
}
