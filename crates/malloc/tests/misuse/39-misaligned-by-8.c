/* expect: at-once misaligned */
/* A pointer off by eight is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);

    free(behind(p, 8));
    return flush();
}
