/* expect: at-once invalid-pointer */
/* A static array is given to realloc. */
#include "misuse.h"

static char array[100];

int main(void)
{
    begin();

    if (realloc(opaque(array), 1000))
        return 93;
    after_bad_use();
    return 0;
}
