/* The smallest program: says hello, and at its end tells its private dirty
 * memory in KiB, as the kernel counts it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    static char text[4096];
    puts("hello, world");
    fflush(stdout);

    int file = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t n = file < 0 ? -1 : read(file, text, sizeof text - 1);
    const char *line = n > 0 ? strstr(text, "Private_Dirty:") : NULL;
    if (!line)
        return 3;
    printf("%ld\n", atol(line + strlen("Private_Dirty:")));
    return 0;
}
