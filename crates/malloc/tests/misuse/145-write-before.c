/* expect: not-caught overflow */
/* The eight bytes before an object are written to. */
#include "misuse.h"

int main(void)
{
    begin();

    char *p = (char *)get(SMALL), *q = (char *)get(SMALL), *high = p < q ? q : p;

    memset(behind(high, -8), 'A', 8);
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
