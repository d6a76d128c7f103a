/* expect: at-once interior */
/* A pointer 16 bytes behind the begin of an object is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);

    free(behind(p, 16));
    after_bad_use();
    return 0;
}
