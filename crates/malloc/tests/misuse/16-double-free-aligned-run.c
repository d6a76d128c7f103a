/* expect: at-once double-free */
/* An aligned run is freed twice in a row. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = opaque(memalign(65536, RUN));

    free(p);
    free(p);
    return flush();
}
