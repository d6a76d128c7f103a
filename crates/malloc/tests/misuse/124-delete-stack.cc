/* expect: at-once invalid-pointer */
/* A local object is deleted. */
#include "misuse.h"

int main(void)
{
    begin();

    long local[8] = { 1 };

    delete static_cast<long *>(opaque(local));
    after_bad_use();
    return 0;
}
