/* expect: at-flush interior */
/* A pointer into an aligned object is freed. */
/* env: SLABYARD_CHECK_FREES=0 */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = opaque(memalign(1024, 1024));

    free(behind(p, 512));
    return flush();
}
