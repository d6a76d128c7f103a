/* expect: at-once double-free */
/* An object is deleted with a size twice, with another between. */
#include "misuse.h"
#include <new>

int main(void)
{
    begin();

    void *p = opaque(::operator new(SMALL)), *q = opaque(::operator new(SMALL));

    ::operator delete(p, std::size_t{SMALL});
    ::operator delete(q, std::size_t{SMALL});
    ::operator delete(p, std::size_t{SMALL});
    after_bad_use();
    return 0;
}
