/* expect: not-caught overflow */
/* The byte before an object is written to. */
#include "misuse.h"

int main(void)
{
    begin();

    char *p = (char *)get(SMALL), *q = (char *)get(SMALL), *high = p < q ? q : p;

    *(char *)behind(high, -1) = 'A';
    free(q);
    free(p);
    after_bad_use();
    return 0;
}
