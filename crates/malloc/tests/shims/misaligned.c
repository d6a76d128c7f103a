/* The alignment that is asked for is ignored. */
#include "shim.h"

void *memalign(size_t alignment, size_t size)
{
    (void)alignment;
    return __libc_malloc(size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **to, size_t alignment, size_t size)
{
    void *p = memalign(alignment, size);

    if (!p)
        return ENOMEM;
    *to = p;
    return 0;
}
