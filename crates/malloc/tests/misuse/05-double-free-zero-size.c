/* expect: at-once double-free */
/* The object of `malloc(0)` is freed twice in a row. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = opaque(malloc(0));

    free(p);
    free(p);
    return flush();
}
