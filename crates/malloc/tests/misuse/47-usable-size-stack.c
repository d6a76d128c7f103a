/* expect: at-once invalid-pointer */
/* The usable size of memory of the stack is asked for. */
#include "misuse.h"

int main(void)
{
    begin();

    _Alignas(16) char bytes[64];
    volatile size_t size = malloc_usable_size(opaque(bytes));

    (void)size;
    return flush();
}
