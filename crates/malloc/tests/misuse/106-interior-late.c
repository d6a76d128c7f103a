/* expect: at-exit interior */
/* Late in a program, a pointer 16 bytes into an object is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    work();

    void *p = get(SMALL);

    free(behind(p, 16));
    after_bad_use();
    return 0;
}
