/* expect: at-once double-free */
/* An object is deleted twice in a row. */
#include "misuse.h"
#include <new>

int main(void)
{
    begin();

    void *p = opaque(::operator new(SMALL));

    ::operator delete(p);
    ::operator delete(p);
    return flush();
}
