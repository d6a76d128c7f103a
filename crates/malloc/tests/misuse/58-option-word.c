/* expect: warned option */
/* A variable has a word that it does not know. */
/* env: SLABYARD_ON_ERROR=never */
#include "misuse.h"

int main(void)
{
    begin();
    free(get(SMALL));
    return flush();
}
