/* free writes to errno. */
#include "shim.h"

void free(void *p)
{
    __libc_free(p);
    errno = EINVAL;
}
