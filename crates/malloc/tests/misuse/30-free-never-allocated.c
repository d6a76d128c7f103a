/* expect: at-once invalid-pointer */
/* An address of the allocator's own reserve that was never handed out is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);

    free(behind(p, 1 << 30));
    return flush();
}
