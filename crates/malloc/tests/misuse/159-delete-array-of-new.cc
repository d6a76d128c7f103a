/* expect: not-caught mismatch */
/* One object that new gave is deleted as an array. */
#include "misuse.h"
#include <new>

int main(void)
{
    begin();

    int *p = static_cast<int *>(opaque(new int));

    delete[] p;
    return flush();
}
