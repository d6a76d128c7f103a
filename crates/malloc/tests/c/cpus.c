/*
 * Files about CPUs that are not what they should be: the file of possible CPUs, or the whole
 * directory, lies under another one that says too little, too much or nonsense. The program begins on
 * one CPU, and then runs on all: what each thread allocates is its own.
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#define POSSIBLE "/sys/devices/system/cpu/possible"
#define NOT_POSSIBLE 77

static const char *const texts[] = {
    "", "0\n", "\n", "0-4294967295\n", "0-99999999999999999999\n", "nonsense\n", "-1\n", "0,\n", "8-0\n",
};

static void bind_to(int cpu)
{
    cpu_set_t set;
    int n;

    CPU_ZERO(&set);
    for (n = cpu < 0 ? 0 : cpu; n <= (cpu < 0 ? CPU_SETSIZE - 1 : cpu); n++)
        CPU_SET(n, &set);
    /* Of CPUs that are not there the system takes no notice. */
    sched_setaffinity(0, sizeof set, &set);
}

static void *work(void *argument)
{
    enum { HELD = 300 };
    uint64_t state = 88172645463325252u + (uint64_t)(size_t)argument;
    struct { char *p; size_t size; } held[HELD] = {{0}};
    int n, turn;

    for (n = 0; n < 60000; n++) {
        size_t at = next_random(&state) % HELD;

        if (n % 1000 == 0)
            bind_to((int)(next_random(&state) % (uint64_t)sysconf(_SC_NPROCESSORS_CONF)));
        if (held[at].p)
            CHECK(intact(held[at].p, held[at].size, at + (size_t)argument), "another's bytes");
        free(held[at].p);
        held[at].size = 16 + next_random(&state) % 500;
        held[at].p = malloc(held[at].size);
        CHECK(held[at].p, "no memory");
        fill(held[at].p, held[at].size, at + (size_t)argument);
    }
    for (turn = 0; turn < HELD; turn++)
        free(held[turn].p);
    return NULL;
}

static int inside(void)
{
    pthread_t id[3];
    size_t n;

    bind_to(-1);
    for (n = 0; n < 3; n++)
        CHECK(pthread_create(&id[n], NULL, work, (void *)(n + 1)) == 0, "a thread");
    for (n = 0; n < 3; n++)
        pthread_join(id[n], NULL);
    return finish("cpus");
}

/* Lays a file of this text, or an empty directory, over what the system says. */
static int hide(const char *text)
{
    char name[] = "/tmp/cpus.XXXXXX";
    int namespaces = getuid() == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER, file, done;

    if (unshare(namespaces) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return 0;
    if (!text)
        return mount("none", "/sys/devices/system/cpu", "tmpfs", 0, NULL) == 0;
    file = mkstemp(name);
    done = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text)
           && mount(name, POSSIBLE, NULL, MS_BIND, NULL) == 0;
    unlink(name);
    close(file);
    return done;
}

int main(int argc, char **argv)
{
    size_t n;

    if (argc > 1)
        return inside();
    for (n = 0; n <= sizeof texts / sizeof *texts; n++) {
        const char *text = n < sizeof texts / sizeof *texts ? texts[n] : NULL;
        pid_t pid = fork();
        int status = -1;

        if (pid == 0) {
            if (!hide(text))
                _exit(NOT_POSSIBLE);
            bind_to(0);
            execl("/proc/self/exe", argv[0], "inside", (char *)NULL);
            _exit(127);
        }
        CHECK(waitpid(pid, &status, 0) == pid, "a child");
        if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_POSSIBLE) {
            printf("skipped: nothing can be mounted here\n");
            break;
        }
        CHECK(status == 0, "where the file says \"%s\": %#x", text ? text : "nothing", (unsigned)status);
    }
    return finish("cpus");
}
