/* expect: not-caught mismatch */
/* What malloc gave is deleted. */
#include "misuse.h"
#include <new>

int main(void)
{
    begin();

    void *p = get(SMALL);

    ::operator delete(p);
    return flush();
}
