/* expect: at-once interior */
/* An address 16 bytes before an object is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *kept = get(SMALL), *p = get(SMALL);

    (void)kept;
    free(behind(p, -16));
    after_bad_use();
    return 0;
}
