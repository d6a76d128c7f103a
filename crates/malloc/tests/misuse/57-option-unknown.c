/* expect: warned option */
/* A variable's name is mistyped. */
/* env: SLABYARD_DECAY=100 */
#include "misuse.h"

int main(void)
{
    begin();
    free(get(SMALL));
    return flush();
}
