/* expect: at-once invalid-pointer */
/* An address that no process can have is freed. */
#include "misuse.h"

int main(void)
{
    begin();
    free(opaque((void *)0x8000000000001000));
    return flush();
}
