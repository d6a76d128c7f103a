/* expect: at-once invalid-pointer */
/* A field of a null structure is freed. */
#include "misuse.h"

int main(void)
{
    begin();
    free(opaque((void *)0x10));
    return flush();
}
