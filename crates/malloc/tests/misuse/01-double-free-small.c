/* expect: at-once double-free */
/* A small object is freed twice in a row. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);

    free(p);
    free(p);
    return flush();
}
