/*
 * Says whether it has more rights than its caller, and frees a block twice: what the
 * environment asks for in that case must not be heard.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

int main(int argc, char **argv)
{
    void *volatile p = malloc(100);

    printf("secure %lu\n", getauxval(AT_SECURE));
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "twice") == 0) {
        free(p);
        free(p);
    }
    return 0;
}
