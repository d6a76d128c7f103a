/*
 * How much of a group's memory a program can use for what it allocates:
 *
 *   filled GROUP least=MIB [largest=4096]
 *
 * A child in the group fills it with objects of 16 bytes to `largest` until the system
 * ends it, and must have had so many MiB of them.
 */
#include "attack.h"
#include <fcntl.h>
#include <sys/mman.h>

static void enter(const char *group)
{
    char path[300], text[30];
    int fd;

    snprintf(path, sizeof(path), "%s/cgroup.procs", group);
    snprintf(text, sizeof(text), "%d\n", (int)getpid());
    fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        not_possible("a group of processes");
    close(fd);
}

/* Each object holds the one before, so that all are in use. */
static void fill_up(size_t largest, volatile size_t *bytes)
{
    uint64_t random = 5;
    void *before = NULL;

    for (;;) {
        size_t size = 16 + next_random(&random) % (largest - 15);
        void **object = opaque(malloc(size));

        if (!object)
            return;
        memset(object, 1, size);
        *object = before;
        before = object;
        *bytes += size;
    }
}

int main(int argc, char **argv)
{
    volatile size_t *bytes = mmap(NULL, sizeof(*bytes), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long least = number_of(argv, "least", 0);
    int status = 0;
    pid_t pid;

    if (argc < 2 || bytes == MAP_FAILED)
        usage("filled GROUP least=MIB [largest=4096]");
    pid = fork();
    if (pid == 0) {
        enter(argv[1]);
        fill_up((size_t)number_of(argv, "largest", 4096), bytes);
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "%s", "no child");
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_POSSIBLE)
        return NOT_POSSIBLE;
    printf("%zu MiB\n", *bytes >> 20);
    CHECK((long)(*bytes >> 20) >= least, "%zu MiB fit into the group, not %ld", *bytes >> 20, least);
    return nr_failed != 0;
}
