/* expect: at-once interior */
/* A pointer 32 bytes behind the begin of an object is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);

    free(behind(p, 32));
    after_bad_use();
    return 0;
}
