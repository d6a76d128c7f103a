/* expect: warned wrong-size */
/* Sized delete is told a much larger size. */
#include "misuse.h"
#include <new>

int main(void)
{
    begin();

    void *p = opaque(::operator new(SMALL));

    ::operator delete(p, std::size_t{5000});
    return flush();
}
