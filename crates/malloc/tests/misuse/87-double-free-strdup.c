/* expect: at-once double-free */
/* Strings of strdup: p, q, p. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = opaque(strdup("first")), *q = opaque(strdup("second"));

    free(p);
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
