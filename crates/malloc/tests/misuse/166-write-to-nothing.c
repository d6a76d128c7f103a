/* expect: not-caught write */
/* A byte of malloc(0) is written to. */
#include "misuse.h"

int main(void)
{
    begin();

    volatile char *p = (char *)opaque(malloc(0));

    *p = 'A';
    free((void *)p);
    return flush();
}
