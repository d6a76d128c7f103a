/* expect: warned wrong-size */
/* The same thousands of times: it is said once. */
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

    for (int i = 0; i < 5000; i++) {
        Base *object = static_cast<Base *>(opaque(new Derived));

        delete object;
    }
    after_bad_use();
    return 0;
}
