/* torn: an allocator to preload that is broken on purpose. Now and then it
 * hands out what it handed out before and what is still in use, and it takes
 * nothing back, so that nothing but the self-check of a load can find it.
 * Tests show by it that the loads do.
 */
#include <stddef.h>

extern void *__libc_malloc(size_t size);

enum { TURN = 100 };

void *malloc(size_t size)
{
    static _Thread_local void *last;
    static _Thread_local size_t last_size;
    static _Atomic unsigned calls;
    if (++calls % TURN == 0 && last_size >= size)
        return last;
    last_size = size;
    return last = __libc_malloc(size);
}

void free(void *object)
{
    (void)object;
}
