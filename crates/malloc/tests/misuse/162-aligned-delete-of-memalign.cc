/* expect: not-caught mismatch */
/* What aligned_alloc gave is deleted with its alignment. */
#include "misuse.h"
#include <new>

int main(void)
{
    begin();

    void *p = opaque(aligned_alloc(256, SMALL * 16));

    ::operator delete(p, std::align_val_t(256));
    return flush();
}
