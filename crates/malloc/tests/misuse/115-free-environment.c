/* expect: at-once invalid-pointer */
/* What getenv gave is freed. */
#include "misuse.h"

int main(void)
{
    /* The value's address is odd, whatever else the environment has. */
    static char pair[] __attribute__((aligned(16))) = "OF_THE_PROGRAM=value";

    begin();

    putenv(pair);
    free(opaque(getenv("OF_THE_PROGRAM")));
    after_bad_use();
    return 0;
}
