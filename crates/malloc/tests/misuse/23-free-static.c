/* expect: at-once invalid-pointer */
/* A static array is freed. */
#include "misuse.h"

static _Alignas(16) char bytes[64];

int main(void)
{
    begin();
    free(opaque(bytes));
    return flush();
}
