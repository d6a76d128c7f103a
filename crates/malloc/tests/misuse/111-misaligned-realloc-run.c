/* expect: at-once misaligned */
/* A pointer into a run, off by eight, is given to realloc. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(RUN);

    if (realloc(behind(p, 8), 10))
        return 93;
    after_bad_use();
    return 0;
}
