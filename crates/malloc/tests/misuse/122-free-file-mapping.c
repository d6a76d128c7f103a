/* expect: at-once invalid-pointer */
/* A mapped file is freed. */
#include "misuse.h"
#include <fcntl.h>
#include <sys/mman.h>

int main(void)
{
    begin();

    int fd = open("/proc/self/exe", O_RDONLY);
    char *p = (char *)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);

    if (fd < 0 || p == MAP_FAILED)
        return 93;
    free(opaque(p));
    after_bad_use();
    return 0;
}
