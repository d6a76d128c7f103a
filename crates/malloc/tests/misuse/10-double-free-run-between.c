/* expect: at-once double-free */
/* A run is freed twice, with another run's free between. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(RUN), *keep = get(RUN), *q = get(RUN);

    free(p);
    free(q);
    free(p);
    memset(keep, 2, RUN);
    return flush();
}
