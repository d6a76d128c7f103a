/* Does what it is told on stdin, and says when it is done:
 *   a N SIZE   allocates N objects
 *   f N        frees the last N
 *   s N SIZE   the same, by a free that gets the size
 *   t          gives back what is free
 *   loop       from now on one malloc(64) and free after the other, counted in the
 *              first word of the file that the argument names
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 1 << 20 };

static void *objects[MOST];
static int held;

int main(int argc, char **argv)
{
    void (*sized)(void *, size_t) = dlsym(RTLD_DEFAULT, "free_sized");
    volatile uint64_t *turns = NULL;
    static char line[64], out[BUFSIZ], in[BUFSIZ];
    int n;
    size_t size;

    /* Buffers of our own: nothing is allocated but what is asked for. */
    setvbuf(stdout, out, _IOLBF, sizeof out);
    setvbuf(stdin, in, _IOFBF, sizeof in);
    if (argc > 1)
        turns = mmap(0, sizeof *turns, PROT_READ | PROT_WRITE, MAP_SHARED, open(argv[1], O_RDWR), 0);
    if (turns == MAP_FAILED)
        return 2;
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "a %d %zu", &n, &size) == 2) {
            while (n-- && held < MOST) {
                objects[held] = malloc(size);
                memset(objects[held++], 7, size);
            }
        } else if (sscanf(line, "f %d", &n) == 1) {
            while (n-- && held)
                free(objects[--held]);
        } else if (sized && sscanf(line, "s %d %zu", &n, &size) == 2) {
            while (n-- && held)
                sized(objects[--held], size);
        } else if (line[0] == 't') {
            malloc_trim(0);
        } else if (turns && !strncmp(line, "loop", 4)) {
            puts("done");
            for (;; ++*turns)
                free(malloc(64));
        }
        puts("done");
    }
    return 0;
}
