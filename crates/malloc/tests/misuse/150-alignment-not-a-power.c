/* expect: fine none */
/* An alignment that is no power of two is refused. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = NULL;

    if (!posix_memalign(&p, 24, SMALL) || !posix_memalign(&p, 0, SMALL) || opaque(aligned_alloc(48, SMALL)))
        return 93;
    after_bad_use();
    return 0;
}
