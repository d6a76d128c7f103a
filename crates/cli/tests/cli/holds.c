/* Makes slabs full and frees most of their objects, so that CPU partial lists have empty slabs; then
 * allocates and frees a little for each line that it reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS = 5000, KEPT = 300, SIZE = 200 };

int main(void)
{
    static void *objects[OBJECTS];
    static char line[16], in[BUFSIZ], out[BUFSIZ];
    int i;

    setvbuf(stdin, in, _IOFBF, sizeof in);
    setvbuf(stdout, out, _IOLBF, sizeof out);
    for (i = 0; i < OBJECTS; i++)
        objects[i] = memset(malloc(SIZE), 1, SIZE);
    while (i > KEPT)
        free(objects[--i]);
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        for (i = KEPT; i < 1000; i++)
            objects[i] = memset(malloc(1000), 1, 1000);
        while (i > KEPT)
            free(objects[--i]);
        puts("done");
    }
    return 0;
}
