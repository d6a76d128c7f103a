/* expect: at-once invalid-pointer */
/* A mapping of the program's own is freed. */
#include "misuse.h"
#include <sys/mman.h>

int main(void)
{
    begin();

    void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    free(opaque(p));
    return flush();
}
