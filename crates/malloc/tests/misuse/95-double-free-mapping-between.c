/* expect: at-once invalid-pointer */
/* Large blocks with their own mappings: p, q, p. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(MAPPING), *q = get(MAPPING);

    free(p);
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
