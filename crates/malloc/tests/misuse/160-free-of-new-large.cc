/* expect: not-caught mismatch */
/* A large array that new[] gave is freed by free. */
#include "misuse.h"
#include <new>

int main(void)
{
    begin();

    void *p = opaque(new char[RUN]);

    free(p);
    return flush();
}
