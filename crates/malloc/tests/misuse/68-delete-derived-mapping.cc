/* expect: warned wrong-size */
/* A large derived object with its own mapping is deleted as a larger one. */
#include "misuse.h"
#include <new>

int main(void)
{
    begin();

    operator delete(opaque(operator new(4 << 20)), std::size_t(64) << 20);
    after_bad_use();
    return 0;
}
