/* expect: at-once invalid-pointer */
/* The end of the address space is freed. */
#include "misuse.h"

int main(void)
{
    begin();
    free(opaque((void *)-16));
    return flush();
}
