/* expect: at-once double-free */
/* A small object is freed again after its whole slab was given back. */
#include "misuse.h"

int main(void)
{
    begin();

    static void *others[4000];
    void *p;
    int n;

    for (n = 0; n < 4000; n++)
        others[n] = get(1500);
    p = others[2000];
    for (n = 0; n < 4000; n++)
        free(others[n]);
    malloc_trim(0);
    free(p);
    return flush();
}
