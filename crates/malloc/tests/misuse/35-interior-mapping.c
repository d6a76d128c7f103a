/* expect: at-once interior */
/* A pointer into a large block is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(MAPPING);

    free(behind(p, 65536));
    return flush();
}
