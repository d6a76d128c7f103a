/* expect: at-once double-free */
/* The child of a fork frees p and q, then p again. */
#include "misuse.h"
#include <signal.h>
#include <sys/wait.h>

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(SMALL);
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        free(p);
        free(q);
        free(p);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT)
        abort();
    after_bad_use();
    return 0;
}
