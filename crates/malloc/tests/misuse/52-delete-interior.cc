/* expect: at-flush interior */
/* A pointer into an object is deleted. */
/* env: SLABYARD_CHECK_FREES=0 */
#include "misuse.h"
#include <new>

int main(void)
{
    begin();

    void *p = opaque(::operator new(SMALL));

    ::operator delete(behind(p, 16));
    return flush();
}
