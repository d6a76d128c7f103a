/* expect: at-once invalid-pointer */
/* A large block with its own mapping is freed twice in a row. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(MAPPING);

    free(p);
    free(p);
    return flush();
}
