/* expect: at-once double-free */
/* The end of a small object, where a free one begins, is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(SMALL), *low = p < q ? q : p;

    free(behind(low, SMALL));
    after_bad_use();
    return 0;
}
