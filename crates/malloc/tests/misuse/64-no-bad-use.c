/* expect: fine none */
/* Nothing wrong is done, with blocks of all kinds. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(RUN), *r = get(MAPPING);

    free(q);
    free(r);
    free(p);
    p = get(SMALL);
    free(p);
    return flush();
}
