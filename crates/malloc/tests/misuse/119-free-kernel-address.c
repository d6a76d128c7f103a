/* expect: at-once invalid-pointer */
/* An address of the kernel is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    free(opaque((void *)0xffff800000000000));
    after_bad_use();
    return 0;
}
