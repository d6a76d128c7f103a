/* expect: at-once double-free */
/* The line of getline is freed twice, with another free between. */
#include "misuse.h"
#include <stdio.h>

int main(void)
{
    begin();

    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen("/proc/self/status", "r");

    if (!file || getline(&line, &room, file) < 0)
        return 93;
    free(line);
    fclose(file);
    free(line);
    after_bad_use();
    return 0;
}
