/* expect: not-caught mismatch */
/* An array that new[] gave is reallocated. */
#include "misuse.h"
#include <new>

int main(void)
{
    begin();

    void *p = realloc(opaque(new char[SMALL]), 4 * SMALL);

    free(p);
    return flush();
}
