/* expect: fine option */
/* A variable has a value that it takes. */
/* env: SLABYARD_DECAY_MS=1000 */
#include "misuse.h"

int main(void)
{
    begin();
    free(get(SMALL));
    return flush();
}
