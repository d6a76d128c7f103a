/* Runs a program on a terminal of its own, copies what it prints, and types q after some seconds:
 *   on-terminal SECONDS PROGRAM [ARGUMENT]...
 * Ends as the program does; a program that ignores the q for ten seconds is an error. */
#include <poll.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct winsize size = {.ws_row = 40, .ws_col = 120};
    int terminal, status, typed = 0;
    pid_t pid;
    time_t end;

    if (argc < 3)
        return 2;
    pid = forkpty(&terminal, NULL, NULL, &size);
    if (pid < 0)
        return 3;
    if (pid == 0) {
        setenv("TERM", "xterm", 1);
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    end = time(NULL) + atoi(argv[1]);
    for (;;) {
        struct pollfd wait = {.fd = terminal, .events = POLLIN};
        char buffer[4096];
        ssize_t got;

        if (time(NULL) >= end && !typed++ && write(terminal, "q", 1) != 1)
            return 3;
        if (time(NULL) >= end + 10)
            return 3;
        if (poll(&wait, 1, 100) <= 0)
            continue;
        got = read(terminal, buffer, sizeof buffer);
        /* The program has closed its terminal. */
        if (got <= 0)
            break;
        if (write(1, buffer, got) != got)
            return 3;
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}
