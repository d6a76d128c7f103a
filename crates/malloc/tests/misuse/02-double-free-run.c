/* expect: at-once double-free */
/* A run of pages is freed twice in a row. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(RUN);

    free(p);
    free(p);
    return flush();
}
