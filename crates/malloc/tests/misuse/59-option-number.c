/* expect: warned option */
/* A variable has a word where a number belongs. */
/* env: SLABYARD_DECAY_MS=soon */
#include "misuse.h"

int main(void)
{
    begin();
    free(get(SMALL));
    return flush();
}
