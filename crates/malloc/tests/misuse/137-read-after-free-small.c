/* expect: not-caught use-after-free */
/* A freed small object is read. */
#include "misuse.h"

int main(void)
{
    begin();

    volatile char *p = (char *)get(SMALL);

    free((void *)p);
    (void)p[8];
    after_bad_use();
    return 0;
}
