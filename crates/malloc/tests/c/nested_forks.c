/*
 * A signal arrives while the process forks, wherever in that, and its handler forks too:
 * each child and the parent go on, and allocate. With one thread: with several, the C
 * library's own locks are not for that.
 */
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

enum { FORKS = 300 };

static volatile sig_atomic_t nested;

static void forks_too(int signal)
{
    int saved = errno;
    pid_t child = fork();

    (void)signal;
    if (child == 0)
        _exit(0);
    if (child > 0)
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            continue;
    nested++;
    errno = saved;
}

int main(void)
{
    struct sigaction action = { .sa_handler = forks_too };
    int n;

    sigaction(SIGUSR1, &action, NULL);
    for (n = 0; n < FORKS; n++) {
        pid_t child = fork(), parent = getppid();

        CHECK(child >= 0, "fork: %d", errno);
        if (child == 0) {
            void *p = opaque(malloc(100));

            kill(parent, SIGUSR1);
            free(p);
            _exit(0);
        }
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    CHECK(nested > 0, "no handler ran");
    verify_yard("after the forks");
    return finish("nested_forks");
}
