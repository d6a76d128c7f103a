/*
 * With SLABYARD_HELPER=1 a program that makes no call has its pages back: here, in
 * the child of a fork that has pages waiting, and in one that has a burst of its own.
 * The thread that does it takes no signal and keeps no process alive. Without the
 * option there is no thread.
 *
 * HELPER_JUDGES=1 asks for the pages whatever the option says.
 */
#include "check.h"
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

enum { OBJECTS = 60000, PAGE = 4096, IDLE_S = 3, HANGS_S = 120 };

/* Memory that is not the allocator's. */
static void **table;
static unsigned char *resident;
static const size_t most_pages = 1 << 18;

static uintptr_t begin, end;
static int helped, judges;

static void idle(int ms)
{
    struct timespec left = { ms / 1000, ms % 1000 * 1000000L };

    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

/* Pages in memory of those from the first object to the last. */
static size_t pages_in_memory(void)
{
    size_t nr = (end - begin) / PAGE, n, sum = 0;

    CHECK(nr <= most_pages, "objects lie over %zu pages", nr);
    if (nr > most_pages || mincore((void *)begin, end - begin, resident)) {
        CHECK(0, "mincore: error %d", errno);
        return 0;
    }
    for (n = 0; n < nr; n++)
        sum += resident[n] & 1;
    return sum;
}

/* Objects come, are written to, and all go; pages that they had. */
static size_t burst(void)
{
    uint64_t state = 88172645463325252u;
    size_t n, full;

    begin = UINTPTR_MAX, end = 0;
    for (n = 0; n < OBJECTS; n++) {
        size_t size = n % 100 ? 16 + next_random(&state) % 2000 : 100000;
        uintptr_t at = (uintptr_t)(table[n] = malloc(size));

        if (!at)
            abort();
        memset(table[n], 1, size);
        begin = at < begin ? at : begin;
        end = at + size > end ? at + size : end;
    }
    begin &= -(uintptr_t)PAGE;
    end = (end + PAGE - 1) & -(uintptr_t)PAGE;
    full = pages_in_memory();
    for (n = 0; n < OBJECTS; n++)
        free(table[n]);
    return full;
}

static void all_back_when_idle(const char *who, size_t full)
{
    size_t left;

    if (!judges)
        return;
    idle(IDLE_S * 1000 * (int)slower());
    left = pages_in_memory();
    CHECK(left * 10 <= full, "%s: of %zu pages, %zu are left", who, full, left);
}

static int read_file(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

    close(fd);
    text[n < 0 ? 0 : n] = 0;
    return n > 0;
}

/* One thread, and the helper if there is to be one: by its name, with all signals
 * blocked but those that the C library keeps for itself. */
static void look_at_threads(const char *who)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    char path[300], text[4096];
    const char *blocked;
    int nr = 0, helpers = 0;

    CHECK(tasks != NULL, "%s: no list of threads", who);
    while (tasks && (task = readdir(tasks))) {
        if (task->d_name[0] == '.')
            continue;
        nr++;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        if (!read_file(path, text, sizeof text) || strncmp(text, "Name:\tslabyard\n", 15))
            continue;
        helpers++;
        blocked = strstr(text, "SigBlk:\t");
        CHECK(blocked && !strncmp(blocked + 8, "fffffffe7ffbfeff\n", 17), "%s: helper: %.30s", who,
              blocked ? blocked : "no SigBlk");
    }
    if (tasks)
        closedir(tasks);
    CHECK(nr == 1 + helped && helpers == helped, "%s: %d threads, %d of them helpers", who, nr,
          helpers);
}

static volatile sig_atomic_t nr_signals;

static void count_signal(int number)
{
    (void)number;
    nr_signals++;
}

/* A signal to the process waits for the only thread of the program. */
static void signals_wait_for_the_program(void)
{
    sigset_t one, old;

    signal(SIGUSR1, count_signal);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigprocmask(SIG_BLOCK, &one, &old);
    kill(getpid(), SIGUSR1);
    idle(100);
    CHECK(nr_signals == 0, "%d came while it was blocked", (int)nr_signals);
    sigprocmask(SIG_SETMASK, &old, NULL);
    CHECK(nr_signals == 1, "%d came", (int)nr_signals);
}

static void ended_well(const char *who, pid_t pid)
{
    int status = -1;

    CHECK(waitpid(pid, &status, 0) == pid && status == 0, "%s: status %#x", who, status);
}

/* A child with a time limit. */
static pid_t child(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        nr_failed = 0;
        alarm(HANGS_S * slower());
    }
    return pid;
}

static void *ends_last(void *unused)
{
    idle(200);
    return unused;
}

/* The main thread ends, then another: the process has ended. */
static void main_thread_ends_alone(void)
{
    pthread_t other;
    pid_t pid = child();

    if (pid == 0) {
        if (pthread_create(&other, NULL, ends_last, NULL))
            _exit(1);
        pthread_exit(NULL);
    }
    ended_well("a main thread that ends alone", pid);
}

int main(void)
{
    const char *option = getenv("SLABYARD_HELPER");
    size_t full;
    pid_t pid;

    helped = option && option[0] == '1';
    judges = helped || getenv("HELPER_JUDGES");
    table = mmap(NULL, OBJECTS * sizeof *table, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    resident = mmap(NULL, most_pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* The helper takes its name by itself. */
    idle(200);
    look_at_threads("at the begin");
    signals_wait_for_the_program();
    main_thread_ends_alone();

    full = burst();
    pid = child();
    if (pid == 0) {
        all_back_when_idle("the child", full);
        look_at_threads("the child");
        all_back_when_idle("the child's own", burst());
        _exit(finish("the child"));
    }
    all_back_when_idle("the parent", full);
    ended_well("the child", pid);
    all_back_when_idle("a second time", burst());
    return finish("helper");
}
