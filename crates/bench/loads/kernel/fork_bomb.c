/* fork-bomb: many short tasks that allocate what a kernel allocates for one,
 * and leave it to others.
 *
 * After Horn's report of January 2021: fork bombs left CPU partial lists full
 * of slabs in which nothing was in use any more, because tasks end elsewhere
 * than where they began. Each of `lines` lines starts one task after the other.
 *
 *   threads     a task allocates its set, leaves it in a random place, takes
 *               what is there, and frees it: mostly another thread's
 *   processes   a task frees a set that it inherited and one of its own; its
 *               parent puts a new set in that place
 */
#include "kernel.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINES, TASKS, PLACES, AS_PROCESSES };

static const struct setting settings[] = {
    [LINES] = {.name = "lines", .usual = 8, .least = 1, .most = 100},
    [TASKS] = {.name = "tasks", .usual = 20000, .least = 1, .most = 1000000000, .scales = true},
    [PLACES] = {.name = "places", .usual = 256, .least = 1, .most = 100000},
    [AS_PROCESSES] = {.name = "processes", .usual = 0, .least = 0, .most = 1},
    {.name = NULL},
};

/* Sizes are Linux 6.18's on x86-64, as `/sys/kernel/slab` has them; how many of
 * each a small program has. The task itself holds the others. */
static const struct {
    const char *cache;
    uint32_t bytes, nr;
} parts[] = {
    {"signal_cache", 1152, 1},   {"sighand_cache", 2112, 1},   {"files_cache", 704, 1},
    {"fs_cache", 64, 1},         {"mm_struct", 1600, 1},       {"cred", 192, 1},
    {"pid", 192, 1},             {"task_delay_info", 256, 1},  {"vm_area_struct", 192, 20},
    {"anon_vma", 104, 8},        {"anon_vma_chain", 64, 10},   {"maple_node", 256, 3},
    {"filp", 192, 6},            {"dentry", 192, 6},           {"inode_cache", 624, 2},
};

enum { KINDS = sizeof parts / sizeof *parts, TASK_BYTES = 5888, MOST_OBJECTS = 64 };

struct task {
    uint32_t mark, nr;
    struct slot objects[MOST_OBJECTS];
    /* The other mark is at the end of TASK_BYTES. */
};
_Static_assert(sizeof(struct task) + sizeof(uint32_t) <= TASK_BYTES, "the marks have room");

struct line {
    const struct order *order;
    struct ledger *ledger;
    struct gate *gate;
    _Atomic(struct task *) *places; /* of all lines, or of this process */
    struct owner owner;
    uint64_t tasks;
    bool planted;
};

/* True once, if this is the fault that is planted. */
static bool strikes(struct line *line, enum plant fault)
{
    bool now = line->planted && line->order->plant == fault;
    line->planted = line->planted && !now;
    return now;
}

static struct task *new_task(struct line *line)
{
    struct slot whole;
    book(line->ledger, &whole, TASK_BYTES, next_mark(&line->owner));
    struct task *task = whole.at;
    task->nr = 0;
    for (unsigned kind = 0; kind < KINDS; kind++)
        for (uint32_t i = 0; i < parts[kind].nr; i++)
            book(line->ledger, &task->objects[task->nr++], parts[kind].bytes,
                 next_mark(&line->owner));
    line->ledger->sent++;
    return task;
}

/* What it holds, and then the task. */
static void free_task(struct line *line, struct task *task)
{
    bool keep = strikes(line, KEEP);
    for (uint32_t i = keep; i < task->nr; i++)
        unbook(line->ledger, &task->objects[i]);
    struct slot whole = {.at = task, .size = TASK_BYTES, .mark = task->mark};
    unbook(line->ledger, &whole);
    line->ledger->arrived++;
}

static _Atomic(struct task *) *some_place(struct line *line)
{
    return &line->places[below(&line->owner, (uint32_t)line->order->values[PLACES])];
}

/* A thread: its line waits for it, so the line's owner and ledger are its own. */
static void *live(void *context)
{
    struct line *line = context;
    struct task *task = new_task(line);
    if (strikes(line, SPOIL))
        spoil(&task->objects[1]);
    if (strikes(line, LOSE))
        return NULL;
    /* Acquire and release: who takes the task sees it whole. */
    task = atomic_exchange_explicit(some_place(line), task, memory_order_acq_rel);
    if (task)
        free_task(line, task);
    return NULL;
}

static void run_as_thread(struct line *line)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, live, line))
        fail("a task does not start");
    pthread_join(thread, NULL);
}

/* Its ledger is a copy; what it must have done is known. */
_Noreturn static void live_as_process(struct line *line, struct task *inherited)
{
    struct ledger own = {0};
    line->ledger = &own;
    struct task *task = new_task(line);
    uint64_t objects = own.allocated;
    if (strikes(line, SPOIL))
        spoil(&inherited->objects[1]);
    if (!strikes(line, LOSE))
        free_task(line, inherited);
    free_task(line, task);
    if (own.arrived != 2 || own.freed != 2 * objects)
        fail("a process freed %" PRIu64 " of 2 tasks, %" PRIu64 " of %" PRIu64 " objects",
             own.arrived, own.freed, 2 * objects);
    _exit(0);
}

static void run_as_process(struct line *line)
{
    _Atomic(struct task *) *place = some_place(line);
    struct task *old = atomic_exchange(place, new_task(line));
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        fail("a task does not start: %s", strerror(errno));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        live_as_process(line, atomic_load(place));
    }
    line->planted = false;
    if (old)
        free_task(line, old);
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            fail("task %d is lost", (int)child);
    if (WIFSIGNALED(status))
        fail("task %d died of signal %d", (int)child, WTERMSIG(status));
    if (WEXITSTATUS(status))
        _exit(WEXITSTATUS(status));
}

static void empty_places(struct line *line)
{
    for (uint64_t i = 0; i < line->order->values[PLACES]; i++) {
        struct task *task = atomic_exchange(&line->places[i], NULL);
        if (task)
            free_task(line, task);
    }
}

static void *go_on(void *context)
{
    struct line *line = context;
    bool processes = line->order->values[AS_PROCESSES];
    pass(line->gate);
    for (uint64_t n = 0; n < line->tasks; n++)
        if (processes)
            run_as_process(line);
        else
            run_as_thread(line);
    if (processes)
        empty_places(line); /* a copy of its own, that goes with it */
    return NULL;
}

static void run(const struct order *order)
{
    unsigned nr = (unsigned)order->values[LINES];
    uint64_t tasks = order->values[TASKS];
    struct job job = {.scale = 1, .seed = order->seed};
    struct line *lines = map_table(nr, sizeof *lines);
    struct ledger *ledgers = share_table(nr, sizeof *ledgers);
    _Atomic(struct task *) *places = map_table(order->values[PLACES], sizeof *places);
    struct gate *gate = new_gate(nr);
    for (unsigned i = 0; i < nr; i++)
        lines[i] = (struct line){
            .order = order,
            .ledger = &ledgers[i],
            .gate = gate,
            .places = places,
            .owner = new_owner(&job, i),
            .tasks = tasks / nr + (i < tasks % nr),
            .planted = i == 0,
        };
    enum kind kind = order->values[AS_PROCESSES] ? PROCESSES : THREADS;
    uint64_t ns = run_members(kind, nr, go_on, lines, sizeof *lines, gate);
    hold_at(order, LIVE);
    empty_places(&lines[0]);

    struct ledger sum = settle(ledgers, nr, "tasks");
    if (sum.sent != tasks)
        fail("%" PRIu64 " of %" PRIu64 " tasks were run", sum.sent, tasks);
    say(tasks, ns);
}

const struct shape shape_fork_bomb = {
    .name = "fork-bomb",
    .threads = 8,
    .words = "20,000 threads, 8 at a time, allocate the 64 objects of a task, 64 to 5888 bytes, "
             "and free what another left (5 MB live)",
    .settings = settings,
    .run = run,
};
