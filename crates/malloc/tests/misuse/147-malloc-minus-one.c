/* expect: fine none */
/* More than there is is asked for: it is refused. */
#include "misuse.h"

int main(void)
{
    begin();

    if (opaque(malloc((size_t)-1)) || opaque(malloc((size_t)-64)) || opaque(malloc((size_t)1 << 63)))
        return 93;
    after_bad_use();
    return 0;
}
