/* expect: not-caught use-after-free */
/* A freed block of 50 000 bytes is read. */
#include "misuse.h"

int main(void)
{
    begin();

    volatile char *p = (char *)get(50000);

    free((void *)p);
    (void)p[20000];
    after_bad_use();
    return 0;
}
