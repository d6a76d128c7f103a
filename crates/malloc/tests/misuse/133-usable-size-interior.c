/* expect: at-once interior */
/* The usable size of a pointer into an object is asked for. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);
    volatile size_t size;

    size = malloc_usable_size(behind(p, 16));
    (void)size;
    after_bad_use();
    return 0;
}
