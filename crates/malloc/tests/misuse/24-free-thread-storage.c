/* expect: at-once invalid-pointer */
/* Thread storage is freed. */
#include "misuse.h"

static __thread _Alignas(16) char bytes[64];

int main(void)
{
    begin();
    free(opaque(bytes));
    return flush();
}
