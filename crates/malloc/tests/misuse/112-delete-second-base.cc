/* expect: at-once interior */
/* An object is deleted through its second base, without a virtual destructor. */
#include "misuse.h"

struct First {
    long a[2] = { 1, 2 };
};

struct Second {
    long b[2] = { 3, 4 };
};

struct Both : First, Second {
    long c[2] = { 5, 6 };
};

int main(void)
{
    begin();

    Both *both = static_cast<Both *>(opaque(new Both));
    Second *second = both;

    operator delete(opaque(second));
    after_bad_use();
    return 0;
}
