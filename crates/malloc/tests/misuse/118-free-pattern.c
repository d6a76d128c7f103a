/* expect: at-once invalid-pointer */
/* A pointer that text has overwritten is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    free(opaque((void *)0x4141414141414140));
    after_bad_use();
    return 0;
}
