/* expect: not-caught write */
/* One byte behind an object is written to, and quick_exit ends the process. */
#include "misuse.h"

int main(void)
{
    begin();

    unsigned char *p = get(SMALL);

    *(unsigned char *)behind(p, SMALL) = 0xff;
    after_bad_use();
    quick_exit(0);
}
