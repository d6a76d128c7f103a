/* expect: at-once invalid-pointer */
/* The address of a mapping that the program unmapped is freed. */
#include "misuse.h"
#include <sys/mman.h>

int main(void)
{
    begin();

    void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    munmap(p, 65536);
    free(opaque(p));
    return flush();
}
