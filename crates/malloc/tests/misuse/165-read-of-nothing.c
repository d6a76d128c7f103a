/* expect: not-caught read */
/* A byte of malloc(0) is read. */
#include "misuse.h"

int main(void)
{
    begin();

    volatile char *p = (char *)opaque(malloc(0));

    (void)*p;
    free((void *)p);
    return flush();
}
