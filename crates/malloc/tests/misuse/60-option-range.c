/* expect: warned option */
/* A variable has a number out of its range. */
/* env: SLABYARD_DECAY_MS=99999999999999999999 */
#include "misuse.h"

int main(void)
{
    begin();
    free(get(SMALL));
    return flush();
}
