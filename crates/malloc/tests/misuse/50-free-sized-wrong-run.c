/* expect: warned wrong-size */
/* `free_sized` is told the size of a small object for a run. */
#include "misuse.h"

int main(void)
{
    begin();

    void (*free_sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    void *p = get(RUN);

    if (!free_sized)
        return 93;
    free_sized(p, 64);
    return flush();
}
