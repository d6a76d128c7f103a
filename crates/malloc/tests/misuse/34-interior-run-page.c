/* expect: at-once interior */
/* A later page of a run is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(RUN);

    free(behind(p, 8192));
    return flush();
}
