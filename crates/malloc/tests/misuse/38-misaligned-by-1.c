/* expect: at-once misaligned */
/* A pointer off by one is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);

    free(behind(p, 1));
    return flush();
}
