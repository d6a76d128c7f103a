/* expect: at-once interior */
/* A pointer into an object is deleted with a wrong size. */
#include "misuse.h"
#include <new>

int main(void)
{
    begin();

    void *p = opaque(::operator new(1000));

    ::operator delete(behind(p, 16), std::size_t{5000});
    after_bad_use();
    return 0;
}
