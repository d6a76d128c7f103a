/* expect: faults none */
/* A freed block of 4 MiB is read. */
#include "misuse.h"

int main(void)
{
    begin();

    volatile char *p = (char *)get(MAPPING);

    free((void *)p);
    (void)p[100000];
    after_bad_use();
    return 0;
}
