/* expect: at-once misaligned */
/* An array of objects with destructors is deleted as one object. */
#include "misuse.h"

static volatile int destroyed;

struct Thing {
    long a, b, c;

    ~Thing() { destroyed++; }
};

int main(void)
{
    begin();

    Thing *things = static_cast<Thing *>(opaque(new Thing[4]));

    delete things;
    after_bad_use();
    return 0;
}
