/* expect: at-once invalid-pointer */
/* A string literal is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    free(opaque((void *)"literal"));
    after_bad_use();
    return 0;
}
