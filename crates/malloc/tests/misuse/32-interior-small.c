/* expect: at-flush interior */
/* A pointer into a small object is freed. */
/* env: SLABYARD_CHECK_FREES=0 */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);

    free(behind(p, 16));
    return flush();
}
