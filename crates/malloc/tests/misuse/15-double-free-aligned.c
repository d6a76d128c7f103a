/* expect: at-once double-free */
/* An aligned small object is freed twice in a row. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = opaque(memalign(256, SMALL));

    free(p);
    free(p);
    return flush();
}
