/* expect: at-once double-free */
/* Objects of the largest class: p, q, p. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(30000), *q = get(30000);

    free(p);
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
