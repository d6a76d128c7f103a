/* expect: at-flush interior */
/* A pointer into an aligned object is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = opaque(memalign(1024, 1024));

    free(behind(p, 512));
    return flush();
}
