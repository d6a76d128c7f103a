/* expect: not-caught mismatch */
/* What new gave is freed by free. */
#include "misuse.h"
#include <new>

int main(void)
{
    begin();

    void *p = opaque(::operator new(SMALL));

    free(p);
    return flush();
}
