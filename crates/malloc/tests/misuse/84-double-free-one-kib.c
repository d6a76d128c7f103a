/* expect: at-once double-free */
/* Objects of one KiB: p, q, p. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(1000), *q = get(1000);

    free(p);
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
