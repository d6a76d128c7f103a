/* Members as threads and as processes, their ledgers, and the clock. */
#include "kernel.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void *share_table(size_t nr, size_t size)
{
    void *table = mmap(NULL, nr * size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED)
        fail("no shared table of %zu times %zu bytes", nr, size);
    return table;
}

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static cpu_set_t cpus;

void know_cpus(uint64_t most)
{
    if (sched_getaffinity(0, sizeof cpus, &cpus))
        fail("sched_getaffinity: %s", strerror(errno));
    for (int cpu = CPU_SETSIZE - 1; (uint64_t)CPU_COUNT(&cpus) > most; cpu--)
        CPU_CLR(cpu, &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus))
        fail("sched_setaffinity to %d CPUs: %s", CPU_COUNT(&cpus), strerror(errno));
}

void pin_to(unsigned n)
{
    unsigned nth = n % (unsigned)CPU_COUNT(&cpus);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &cpus) || nth-- > 0)
        cpu++;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one))
        fail("sched_setaffinity to CPU %d: %s", cpu, strerror(errno));
}

struct gate *new_gate(unsigned nr)
{
    struct gate *gate = share_table(1, sizeof *gate);
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    if (pthread_barrier_init(&gate->barrier, &shared, nr))
        fail("no barrier for %u", nr);
    return gate;
}

void pass(struct gate *gate)
{
    pthread_barrier_wait(&gate->barrier);
    uint64_t nobody = 0;
    /* Relaxed: who reads it has waited for the end of all members. */
    atomic_compare_exchange_strong_explicit(&gate->opened_ns, &nobody, now_ns(),
                                            memory_order_relaxed, memory_order_relaxed);
}

/* Called when all members have ended. */
static uint64_t ns_since_open(struct gate *gate)
{
    uint64_t end = now_ns();
    return end - atomic_load_explicit(&gate->opened_ns, memory_order_relaxed);
}

static uint64_t run_threads_through(unsigned nr, void *(*body)(void *), char *contexts,
                                    size_t size, struct gate *gate)
{
    pthread_t *threads = map_table(nr, sizeof *threads);
    for (unsigned i = 0; i < nr; i++) {
        int error = pthread_create(&threads[i], NULL, body, contexts + i * size);
        if (error)
            fail("thread %u of %u does not start: %s", i + 1, nr, strerror(error));
    }
    for (unsigned i = 0; i < nr; i++)
        pthread_join(threads[i], NULL);
    uint64_t ns = ns_since_open(gate);
    unmap_table(threads, nr, sizeof *threads);
    return ns;
}

/* A member that fails has said why, and ends all: the others go with their
 * parent, or they would wait for it for ever. */
static void await_member(void)
{
    int status;
    while (wait(&status) < 0)
        if (errno != EINTR)
            fail("a process is lost: %s", strerror(errno));
    if (WIFSIGNALED(status))
        fail("a process died of signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status))
        _exit(WEXITSTATUS(status));
}

static uint64_t run_processes_through(unsigned nr, void *(*body)(void *), char *contexts,
                                      size_t size, struct gate *gate)
{
    pid_t parent = getpid();
    for (unsigned i = 0; i < nr; i++) {
        pid_t child = fork();
        if (child < 0)
            fail("process %u of %u does not start: %s", i + 1, nr, strerror(errno));
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(1);
            body(contexts + i * size);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < nr; i++)
        await_member();
    return ns_since_open(gate);
}

uint64_t run_members(enum kind kind, unsigned nr, void *(*body)(void *), void *contexts,
                     size_t size, struct gate *gate)
{
    return kind == PROCESSES ? run_processes_through(nr, body, contexts, size, gate)
                             : run_threads_through(nr, body, contexts, size, gate);
}

struct ledger settle(const struct ledger *ledgers, unsigned nr, const char *sent_what)
{
    struct ledger sum = {0};
    for (unsigned i = 0; i < nr; i++) {
        sum.allocated += ledgers[i].allocated;
        sum.freed += ledgers[i].freed;
        sum.sent += ledgers[i].sent;
        sum.arrived += ledgers[i].arrived;
    }
    if (sum.sent != sum.arrived)
        fail("%" PRIu64 " of %" PRIu64 " %s arrived", sum.arrived, sum.sent, sent_what);
    if (sum.allocated != sum.freed)
        fail("%" PRIu64 " of %" PRIu64 " objects were freed", sum.freed, sum.allocated);
    return sum;
}

void hold_at(const struct order *order, enum moment moment)
{
    if (order->hold != moment)
        return;
    dprintf(STDOUT_FILENO, "held\n");
    for (struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};;) {
        char word;
        int ready = poll(&in, 1, 10);
        if (ready < 0 && errno != EINTR)
            fail("standard input cannot be waited for: %s", strerror(errno));
        if (ready > 0 && read(STDIN_FILENO, &word, 1) == 0)
            return;
        free(got(malloc(64), 64));
    }
}

void say(uint64_t ops, uint64_t ns)
{
    dprintf(STDOUT_FILENO, "ops %" PRIu64 "\nns %" PRIu64 "\n", ops, ns);
}
