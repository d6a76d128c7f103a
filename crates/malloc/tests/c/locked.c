/*
 * `mlockall` of a user who may lock 8 MiB: the process is small, so it is allowed,
 * and the program goes on within the limit. Without a limit, or where what comes
 * later is not locked, it goes on as far as before.
 */
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)
#define NOBODY 65534

static long locked_kib(void)
{
    char text[4096], *line;
    int fd = open("/proc/self/status", O_RDONLY);
    long n = read(fd, text, sizeof text - 1);

    close(fd);
    text[n > 0 ? n : 0] = 0;
    line = strstr(text, "\nVmLck:");
    return line ? strtol(line + 7, NULL, 10) : -1;
}

/* Blocks of many sizes, so many bytes of them: each keeps what it holds. */
static size_t use(size_t most)
{
    struct block { struct block *next; size_t size; char bytes[]; } *first = NULL, *p;
    uint64_t state = 88172645463325252u;
    size_t taken = 0, seen = 0, size;

    while (taken < most) {
        size = 32 + next_random(&state) % (next_random(&state) % 64 ? 1000 : 200000);
        if (!(p = malloc(size)))
            break;
        p->next = first;
        p->size = size;
        fill(p->bytes, size - sizeof *p, size);
        first = p;
        taken += size;
    }
    for (p = first; p; p = first) {
        first = p->next;
        CHECK(intact(p->bytes, p->size - sizeof *p, p->size), "a block of %zu", p->size);
        seen += p->size;
        free(p);
    }
    CHECK(seen == taken, "%zu of %zu", seen, taken);
    return taken;
}

static void *thread(void *arg)
{
    CHECK(use(MIB / 4) >= MIB / 4, "a thread");
    return arg;
}

static void use_in_thread(void)
{
    pthread_attr_t attributes;
    pthread_t id;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    CHECK(pthread_create(&id, &attributes, thread, NULL) == 0, "a thread");
    if (!nr_failed)
        pthread_join(id, NULL);
}

static void become_nobody(size_t may_lock)
{
    struct rlimit r = { may_lock, may_lock };

    if (setrlimit(RLIMIT_MEMLOCK, &r) || (getuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY))) {
        perror("another user");
        exit(2);
    }
}

static void current_and_future(void)
{
    int round;
    char *large;
    size_t got;
    /* A mapping, which has room beside what a heap of 1 MiB may keep free. */
    const size_t bytes = MIB + MIB / 16;

    become_nobody(8 * MIB);
    for (round = 0; round < 3; round++) {
        errno = 0;
        CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0, "mlockall: %s", strerror(errno));
        CHECK(locked_kib() > 0 && locked_kib() <= 8192, "%ld KiB are locked", locked_kib());
        CHECK(use(MIB) >= MIB, "round %d", round);
    }
    use_in_thread();
    large = malloc(bytes);
    CHECK(large, "a block of 1.1 MiB");
    fill(large, bytes, 5);
    CHECK(intact(large, bytes, 5), "a block of 1.1 MiB");
    free(large);
    got = use(64 * MIB);
    CHECK(got > bytes && got < 8 * MIB, "%zu KiB until memory ran out", got >> 10);
    /* The C library passes on what the system says of locked memory. */
    CHECK(errno == ENOMEM || errno == EAGAIN, "errno is %d", errno);
    CHECK(use(MIB) >= MIB, "memory after it ran out");
    CHECK(munlockall() == 0, "munlockall");
    CHECK(use(40 * MIB) >= 40 * MIB, "unlocked");
}

static void current_alone(void)
{
    become_nobody(8 * MIB);
    CHECK(mlockall(MCL_CURRENT) == 0, "mlockall: %s", strerror(errno));
    CHECK(use(300 * MIB) >= 300 * MIB, "what is not locked");
    use_in_thread();
    errno = 0;
    CHECK(mlockall(MCL_CURRENT) == -1 && errno == ENOMEM, "more than 8 MiB: errno %d", errno);
}

/* Nothing of another's may end when it is asked for again. */
static void others_stay(void)
{
    char *mine[200];
    size_t n;

    become_nobody(8 * MIB);
    for (n = 0; n < 200; n++) {
        CHECK(mlockall(MCL_CURRENT) == 0 || n, "mlockall: %s", strerror(errno));
        munlockall();
        mine[n] = mmap(NULL, (n % 5 + 1) * 12288, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(mine[n], (int)n, (n % 5 + 1) * 12288);
        use(MIB / 8);
    }
    use(20 * MIB);
    for (n = 0; n < 200; n++)
        CHECK(mine[n][0] == (char)n && all_zero(mine[n], 0), "mapping %zu", n);
}

static void without_limit(void)
{
    if (getuid() != 0)
        return;
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE) == 0, "mlockall: %s", strerror(errno));
    CHECK(use(100 * MIB) >= 100 * MIB, "as root");
}

static void in_child(const char *name, void (*part)(void))
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        nr_failed = 0;
        part();
        verify_yard(name);
        _exit(nr_failed != 0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "%s: %#x", name, (unsigned)status);
}

int main(void)
{
    use(MIB);
    in_child("current and future", current_and_future);
    in_child("current", current_alone);
    in_child("others", others_stay);
    in_child("without a limit", without_limit);
    return finish("locked");
}
