/* expect: warned wrong-size */
/* A derived object that is a run is deleted as a small base. */
#include "misuse.h"

struct Base {
    long a = 1;
};

struct Derived : Base {
    char more[100000] = {};
};

int main(void)
{
    begin();

    Base *object = static_cast<Base *>(opaque(new Derived));

    delete object;
    after_bad_use();
    return 0;
}
