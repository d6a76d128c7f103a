/* expect: at-once invalid-pointer */
/* What getenv gave is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    setenv("PATH", getenv("PATH") ? getenv("PATH") : "/bin", 0);
    free(opaque(getenv("PATH")));
    after_bad_use();
    return 0;
}
