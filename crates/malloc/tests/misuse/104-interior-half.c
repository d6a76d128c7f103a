/* expect: at-once interior */
/* The middle of an object of some hundred bytes is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(512);

    free(behind(p, 256));
    after_bad_use();
    return 0;
}
