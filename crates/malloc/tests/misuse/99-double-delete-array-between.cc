/* expect: at-once double-free */
/* Arrays of `new[]`: p, q, p. */
#include "misuse.h"

int main(void)
{
    begin();

    int *p = static_cast<int *>(opaque(new int[20])), *q = static_cast<int *>(opaque(new int[20]));

    delete[] p;
    delete[] q;
    delete[] p;
    after_bad_use();
    return 0;
}
