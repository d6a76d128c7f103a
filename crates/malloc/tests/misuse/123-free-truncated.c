/* expect: at-once invalid-pointer */
/* A pointer that was kept in 32 bits is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);

    free(opaque((void *)(uintptr_t)((uintptr_t)p & 0xffffffff & ~15ul)));
    after_bad_use();
    return 0;
}
