/* expect: at-once invalid-pointer */
/* The address 1 is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    free(opaque((void *)1));
    after_bad_use();
    return 0;
}
