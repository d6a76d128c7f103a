/* fork_while and cold: processes that begin.
 *
 * fork_while: a program of several threads forks while the others are inside
 * the allocator; POSIX lets the child call little, but C libraries keep malloc
 * usable there, and programs count on it. cold: what the smallest process
 * costs, again and again, as in a shell script or a configure run.
 */
#include "life.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 2, OBJECTS = 10000, STEPS = 2000000, FORKS = 60 };
enum { CHILD_OBJECTS = 500, LEAST = 16, MOST = 512, PATIENCE_SECONDS = 120 };

struct worker {
    struct slot *table;
    struct owner owner;
    uint64_t steps, beat; /* a post to `beats` each `beat` steps */
    sem_t *beats;
};

static void *work(void *context)
{
    struct worker *me = context;
    for (uint64_t i = 0; i < me->steps; i++) {
        struct slot *slot = &me->table[below(&me->owner, OBJECTS)];
        empty(slot);
        fill(slot, &me->owner, between(&me->owner, LEAST, MOST));
        if (i % me->beat == me->beat - 1)
            sem_post(me->beats);
    }
    return NULL;
}

/* Replaces what it inherits of the forking thread, and allocates more. */
_Noreturn static void live_as_child(struct slot *table, struct owner *owner)
{
    alarm(PATIENCE_SECONDS); /* an allocator that hangs here is found */
    struct slot own[CHILD_OBJECTS];
    for (unsigned i = 0; i < CHILD_OBJECTS; i++) {
        fill(&own[i], owner, between(owner, LEAST, MOST));
        empty(&table[i]);
    }
    empty_all(own, CHILD_OBJECTS);
    _exit(0);
}

static void await(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            fail("child %d is lost", (int)child);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        fail("child %d hangs", (int)child);
    if (WIFSIGNALED(status))
        fail("child %d died of signal %d", (int)child, WTERMSIG(status));
    if (WEXITSTATUS(status))
        fail("child %d exited with %d", (int)child, WEXITSTATUS(status));
}

static void fork_in_step(sem_t *beats, uint64_t forks, struct slot *table, struct owner *owner)
{
    for (uint64_t n = 0; n < forks; n++) {
        for (unsigned i = 0; i < THREADS; i++)
            while (sem_wait(beats))
                continue;
        pid_t child = fork();
        if (child < 0)
            fail("fork %u is refused", (unsigned)n);
        if (child == 0)
            live_as_child(table, owner);
        await(child);
    }
}

/* The forking thread's beats come from the workers, so that forks spread over
 * all of their work. */
struct forker {
    sem_t *beats;
    uint64_t forks;
    struct slot *table;
    struct owner owner;
};

static void *fork_and_wait(void *context)
{
    struct forker *me = context;
    fork_in_step(me->beats, me->forks, me->table, &me->owner);
    return NULL;
}

static uint64_t run_fork_while(const struct job *job)
{
    struct worker workers[THREADS];
    sem_t beats;
    uint64_t forks = scaled(job, FORKS), beat = STEPS / FORKS;
    struct forker forker = {
        .beats = &beats,
        .forks = forks,
        .table = map_table(CHILD_OBJECTS, sizeof(struct slot)),
        .owner = new_owner(job, THREADS),
    };
    sem_init(&beats, 0, 0);
    for (unsigned i = 0; i < CHILD_OBJECTS; i++)
        fill(&forker.table[i], &forker.owner, between(&forker.owner, LEAST, MOST));
    for (unsigned i = 0; i < THREADS; i++)
        workers[i] = (struct worker){
            .table = map_table(OBJECTS, sizeof(struct slot)),
            .owner = new_owner(job, i),
            .steps = forks * beat,
            .beat = beat,
            .beats = &beats,
        };

    pthread_t thread;
    if (pthread_create(&thread, NULL, fork_and_wait, &forker))
        fail("the forking thread does not start");
    run_threads(THREADS, work, workers, sizeof *workers);
    pthread_join(thread, NULL);

    for (unsigned i = 0; i < THREADS; i++) {
        empty_all(workers[i].table, OBJECTS);
        unmap_table(workers[i].table, OBJECTS, sizeof(struct slot));
    }
    empty_all(forker.table, CHILD_OBJECTS);
    unmap_table(forker.table, CHILD_OBJECTS, sizeof(struct slot));
    sem_destroy(&beats);
    return THREADS * forks * beat + CHILD_OBJECTS + forks * CHILD_OBJECTS;
}

const struct load load_fork_while = {
    .name = "fork_while",
    .threads = THREADS + 1,
    .words = "a thread forks 60 children that allocate, while two others replace 16 to 512 "
             "bytes (5 MB live)",
    .run = run_fork_while,
};

enum { STARTS = 400, NOOP_OBJECTS = 40 };

/* What little programs allocate: a few names, a buffer, a table. */
int noop(void)
{
    struct job job = {.scale = 1, .seed = 1};
    struct owner owner = new_owner(&job, 0);
    struct slot slots[NOOP_OBJECTS];
    for (unsigned i = 0; i < NOOP_OBJECTS; i++)
        fill(&slots[i], &owner, i % 10 ? between(&owner, 8, 120) : 4096);
    empty_all(slots, NOOP_OBJECTS);
    return 0;
}

static uint64_t run_cold(const struct job *job)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        fail("this program does not find itself in /proc");
    self[length] = 0;

    uint64_t starts = scaled(job, STARTS);
    for (uint64_t n = 0; n < starts; n++) {
        pid_t child = fork();
        if (child < 0)
            fail("fork %u is refused", (unsigned)n);
        if (child == 0) {
            execl(self, "life", "noop", (char *)NULL);
            _exit(127);
        }
        await(child);
    }
    return starts * NOOP_OBJECTS;
}

const struct load load_cold = {
    .name = "cold",
    .threads = 1,
    .words = "starts itself 400 times as a process that allocates 40 objects and ends (less "
             "than 1 MB live: what is left is a process's own)",
    .run = run_cold,
};
