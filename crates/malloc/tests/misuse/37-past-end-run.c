/* expect: at-once double-free */
/* The end of a run is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(RUN);

    free(behind(p, (ptrdiff_t)malloc_usable_size(p)));
    return flush();
}
