/* expect: warned wrong-size */
/* An aligned object is deleted with a wrong size. */
#include "misuse.h"
#include <new>

int main(void)
{
    begin();

    void *p = opaque(::operator new(1000, std::align_val_t{64}));

    ::operator delete(p, std::size_t{64}, std::align_val_t{64});
    after_bad_use();
    return 0;
}
