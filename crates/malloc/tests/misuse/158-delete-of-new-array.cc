/* expect: not-caught mismatch */
/* An array that new[] gave is deleted as one object. */
#include "misuse.h"
#include <new>

int main(void)
{
    begin();

    void *p = opaque(::operator new[](SMALL));

    ::operator delete(p);
    return flush();
}
