/* expect: at-once interior */
/* The last 16 bytes of an object of some KiB are freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(5000);

    free(behind(p, 4992));
    after_bad_use();
    return 0;
}
