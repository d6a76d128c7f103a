/* expect: at-once invalid-pointer */
/* An aligned large block is freed twice in a row. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = opaque(memalign(1 << 21, MAPPING));

    free(p);
    free(p);
    return flush();
}
