/* expect: at-once interior */
/* A pointer 16 bytes into an object of 32 bytes is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(32);

    free(behind(p, 16));
    after_bad_use();
    return 0;
}
