/* expect: at-once wrong-size */
/* With `SLABYARD_ON_ERROR=abort` a wrong size stops the program. */
/* env: SLABYARD_ON_ERROR=abort */
#include "misuse.h"

struct Base {
    long a = 1;
};

struct Derived : Base {
    long more[30] = {};
};

int main(void)
{
    begin();

    Base *object = static_cast<Base *>(opaque(new Derived));

    delete object;
    after_bad_use();
    return 0;
}
