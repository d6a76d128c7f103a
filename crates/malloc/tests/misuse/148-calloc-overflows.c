/* expect: fine none */
/* A product that overflows is asked of calloc and reallocarray: it is refused. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL);

    if (opaque(calloc((size_t)1 << 33, (size_t)1 << 33)) || opaque(reallocarray(p, SIZE_MAX / 2, 3)))
        return 93;
    free(p);
    after_bad_use();
    return 0;
}
