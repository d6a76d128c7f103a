/* expect: faults none */
/* A freed block of 200 000 bytes is written to. */
#include "misuse.h"

int main(void)
{
    begin();

    volatile char *p = (char *)get(200000);

    free((void *)p);
    p[100000] = 1;
    after_bad_use();
    return 0;
}
