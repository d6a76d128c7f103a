/* expect: warned wrong-size */
/* A derived object is deleted through its base, without a virtual destructor. */
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
    /* It was freed as what it is. */
    if (opaque(new Derived) != object)
        return 93;
    after_bad_use();
    return 0;
}
