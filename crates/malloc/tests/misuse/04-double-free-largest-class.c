/* expect: at-once double-free */
/* An object of a class of some KiB is freed twice in a row. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(16000);

    free(p);
    free(p);
    return flush();
}
