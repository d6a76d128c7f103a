/*
 * How much memory a program reaches under a limit on its address space: small
 * objects, of sizes that are mixed or all the same, until there are no more.
 * It prints the KiB that it got under LIMITED_KIB with objects of LIMITED_FORM,
 * `mixed` or a size; who runs it compares allocators. With LIMITED_LATE the
 * program limits itself, when it has used memory.
 */
#include "check.h"
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define KIB ((size_t)1 << 10)

static size_t size_of_next(const char *form, uint64_t *state)
{
    if (strcmp(form, "mixed") == 0)
        return 16 + next_random(state) % 497;
    return strtoul(form, NULL, 10);
}

/* Takes objects until there are no more: their bytes. Each keeps what it holds. */
static size_t reach(const char *form)
{
    uint64_t state = 88172645463325252u;
    size_t size = 0, bytes = 0, nr = 0;
    struct object { struct object *next; size_t mark; } *first = NULL, *p;

    errno = 0;
    while ((p = malloc(size = size_of_next(form, &state)))) {
        p->next = first;
        p->mark = nr++ ^ size;
        first = p;
        bytes += size;
    }
    CHECK(errno == ENOMEM, "errno is %d", errno);
    /* The same sizes in the same order, from the last one back. */
    if (strcmp(form, "mixed") != 0)
        for (p = first; p; p = p->next)
            CHECK(p->mark == (--nr ^ size), "object %zu holds %zu", nr, p->mark);
    for (p = first; p; p = first) {
        first = p->next;
        free(p);
    }
    p = malloc(100);
    CHECK(p, "nothing after all was freed");
    free(p);
    return bytes;
}

static void limit_to(size_t bytes)
{
    struct rlimit r = { bytes, bytes };

    if (setrlimit(RLIMIT_AS, &r)) {
        perror("setrlimit");
        exit(2);
    }
}

/* Hides /sys from this process; false where that is not allowed. */
static int hide_sys(void)
{
    int namespaces = getuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER;

    return unshare(namespaces) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", "/sys", "tmpfs", 0, NULL) == 0 &&
           access("/sys/devices/system/cpu/possible", F_OK) != 0;
}

/* Runs this program anew under a limit: the KiB that it reached. */
static size_t reach_under(size_t kib, const char *form)
{
    size_t bytes = 0;
    int ends[2], status = 0;
    pid_t pid;

    if (pipe(ends)) {
        perror("pipe");
        exit(2);
    }
    pid = fork();
    if (pid == 0) {
        char *words[] = { "limited", "inside", (char *)form, NULL };

        dup2(ends[1], 3);
        if (getenv("LIMITED_WITHOUT_SYS") && !hide_sys())
            _exit(77);
        if (getenv("LIMITED_LATE"))
            setenv("LIMITED_LATE", getenv("LIMITED_KIB"), 1);
        else
            limit_to(kib * KIB);
        execv("/proc/self/exe", words);
        _exit(127);
    }
    close(ends[1]);
    if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        printf("skipped: /sys cannot be hidden here\n");
        exit(0);
    }
    CHECK(read(ends[0], &bytes, sizeof bytes) == sizeof bytes, "no answer under %zu KiB", kib);
    close(ends[0]);
    CHECK(status == 0, "under %zu KiB: %#x", kib, (unsigned)status);
    return bytes / KIB;
}

int main(int argc, char **argv)
{
    const char *kib = getenv("LIMITED_KIB"), *form = getenv("LIMITED_FORM");
    size_t limit = kib ? strtoul(kib, NULL, 10) : 65536, got;

    if (argc == 3 && strcmp(argv[1], "inside") == 0) {
        const char *late = getenv("LIMITED_LATE");
        size_t bytes;

        if (late) {
            void *own = malloc(100000);

            limit_to(strtoul(late, NULL, 10) * KIB);
            free(own);
            own = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK(own != MAP_FAILED, "no room for a mapping of the program's");
            munmap(own, 4 << 20);
        }
        bytes = reach(argv[2]);
        CHECK(write(3, &bytes, sizeof bytes) == sizeof bytes, "the answer");
        return finish("limited");
    }
    got = reach_under(limit, form ? form : "mixed");
    CHECK(got > limit / 4 && got < limit, "%zu of %zu KiB", got, limit);
    printf("%zu\n", got);
    return finish("limited");
}
