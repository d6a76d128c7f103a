/* expect: at-flush double-free */
/* The parent freed a small object, the child of a fork frees it again. */
/* env: SLABYARD_CHECK_FREES=0 */
#include "misuse.h"
#include <signal.h>
#include <sys/wait.h>

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(SMALL);
    int status;
    pid_t pid;

    free(p);
    free(q);
    pid = fork();
    if (pid == 0) {
        free(p);
        return flush();
    }
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT)
        abort();
    return 0;
}
