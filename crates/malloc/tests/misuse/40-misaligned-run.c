/* expect: at-once misaligned */
/* A pointer into a run, off by one, is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(RUN);

    free(behind(p, 1));
    return flush();
}
