/* expect: at-once interior */
/* A pointer into the first page of a run is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(RUN);

    free(behind(p, 16));
    return flush();
}
