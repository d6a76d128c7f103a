/* expect: warned wrong-size */
/* `free_sized` is told a much larger size. */
#include "misuse.h"

int main(void)
{
    begin();

    void (*free_sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
    void *p = get(SMALL);

    if (!free_sized)
        return 93;
    free_sized(p, 5000);
    return flush();
}
