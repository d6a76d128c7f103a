/* expect: at-once invalid-pointer */
/* The standard output is freed. */
#include "misuse.h"
#include <stdio.h>

int main(void)
{
    begin();

    free(opaque(stdout));
    after_bad_use();
    return 0;
}
