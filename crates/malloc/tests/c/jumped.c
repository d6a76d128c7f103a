/*
 * Handlers that interrupt malloc and free, and how they end, a child each:
 *
 *   jump       by siglongjmp, out of the midst of the call
 *   thread     the same in a thread
 *   alternate  they allocate on a stack of their own that lies above the interrupted one, and return
 *   coroutine  they go on in a coroutine that allocates, whose stack lies above, and come back
 *
 * After a jump the thread's calls must be as before it: a small block is no mapping of its own.
 */
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { SLOTS = 256, SIGNALS = 100, SMALL = 4000, STACK = 64 * 1024, AS_IN_HANDLER = 2, TRIES = 60 };

static sigjmp_buf back;
static volatile sig_atomic_t nr_signals, may_jump, over, has_timer;
static ucontext_t interrupted, coroutine;
static unsigned char *kept[SLOTS];
static size_t sizes[SLOTS];

extern int slabyard_verify(void) __attribute__((weak));

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* Blocks of which each is full of a byte of its own. */
static void exchange(unsigned char **blocks, size_t *bytes, unsigned i, size_t size)
{
    unsigned char *old = blocks[i];

    if (old) {
        if (old[0] != (unsigned char)i || old[bytes[i] - 1] != (unsigned char)i)
            fail("a block is another's");
        /* Whoever jumps out of the free does not use it again. */
        blocks[i] = NULL;
        free(old);
    }
    old = malloc(size);
    if (!old)
        fail("no memory");
    bytes[i] = size;
    memset(old, (int)i, size);
    blocks[i] = old;
}

static size_t size_of(unsigned n) { return n % 3 ? 16 + n * 37 % 2000 : 40000 + n * 4099 % 200000; }

static void work(unsigned times)
{
    static unsigned n;

    while (times-- > 0 && nr_signals < SIGNALS) {
        n++;
        exchange(kept, sizes, n * 7 % SLOTS, size_of(n));
    }
}

/* For the next signal alone: a handler that takes longer than the time between two would starve
 * what it interrupts. */
static void set_timer(long microseconds)
{
    struct itimerval once = { .it_value = { 0, microseconds } };

    if (has_timer)
        setitimer(ITIMER_REAL, &once, NULL);
}

static void use_some(void)
{
    unsigned char *some[8];

    for (int i = 0; i < 8; i++) {
        some[i] = malloc(100 + (size_t)i * 3000);
        if (!some[i])
            fail("no memory in a handler");
        memset(some[i], 0xee, 100);
    }
    for (int i = 0; i < 8; i++)
        free(some[i]);
}

static void on_jump(int signal)
{
    (void)signal;
    nr_signals++;
    set_timer(300);
    if (may_jump)
        siglongjmp(back, 1);
}

static void on_use(int signal)
{
    (void)signal;
    nr_signals++;
    use_some();
    set_timer(300);
}

static void run_coroutine(void)
{
    for (;;) {
        use_some();
        swapcontext(&coroutine, &interrupted);
    }
}

static void on_switch(int signal)
{
    (void)signal;
    nr_signals++;
    swapcontext(&interrupted, &coroutine);
    set_timer(300);
}

static void *tick(void *thread)
{
    struct timespec pause = { 0, 500000 };

    while (!over) {
        nanosleep(&pause, NULL);
        pthread_kill(*(pthread_t *)thread, SIGALRM);
    }
    return NULL;
}

/* How many of so many small blocks have a page of their own. */
static int own_pages(void)
{
    static void *blocks[SMALL];
    int own = 0;

    for (int i = 0; i < SMALL; i++) {
        blocks[i] = malloc(100);
        own += malloc_usable_size(blocks[i]) > 1000;
    }
    for (int i = 0; i < SMALL; i++)
        free(blocks[i]);
    return own;
}

static void *jump_about(void *argument)
{
    int own;

    while (nr_signals < SIGNALS) {
        if (sigsetjmp(back, 1) == 0) {
            may_jump = 1;
            work(1u << 30);
        }
        may_jump = 0;
    }
    /* The first calls may have to find out. */
    own_pages();
    own = own_pages();
    if (own > SMALL / 100)
        exit(AS_IN_HANDLER);
    return argument;
}

static void run(const char *name)
{
    struct sigaction action = { .sa_flags = SA_ONSTACK | SA_RESTART };
    pthread_t ticker, jumper;
    /* Above what is called from here. */
    char stack[STACK];
    stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };

    if (!strcmp(name, "alternate")) {
        action.sa_handler = on_use;
        sigaltstack(&alternate, NULL);
    } else if (!strcmp(name, "coroutine")) {
        action.sa_handler = on_switch;
        getcontext(&coroutine);
        /* One at a time goes on there. */
        sigaddset(&coroutine.uc_sigmask, SIGALRM);
        coroutine.uc_stack.ss_sp = stack;
        coroutine.uc_stack.ss_size = sizeof stack;
        makecontext(&coroutine, run_coroutine, 0);
    } else {
        action.sa_handler = on_jump;
    }
    sigaction(SIGALRM, &action, NULL);
    if (!strcmp(name, "thread")) {
        pthread_create(&jumper, NULL, jump_about, NULL);
        pthread_create(&ticker, NULL, tick, &jumper);
        pthread_join(jumper, NULL);
        over = 1;
        pthread_join(ticker, NULL);
    } else {
        has_timer = 1;
        set_timer(300);
        if (action.sa_handler == on_jump)
            jump_about(NULL);
        else
            work(1u << 30);
        set_timer(0);
    }
    if (slabyard_verify && slabyard_verify() != 0)
        fail("the yard is not sound");
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "jump", "thread", "alternate", "coroutine" };

    if (argc > 1) {
        run(argv[1]);
        return 0;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int status, tries = 0;

        do {
            pid_t child = fork();

            if (child == 0) {
                run(names[i]);
                return 0;
            }
            if (waitpid(child, &status, 0) != child)
                return 1;
            /*
             * Beside other threads it is not known of each jump whether it was out of the call; and a
             * mark may lie where no later call writes. On a busy machine half of the children meet that.
             */
        } while (status == AS_IN_HANDLER << 8 && i < 2 && ++tries < TRIES);
        if (status != 0) {
            fprintf(stderr, "%s: status %#x\n", names[i], status);
            return 1;
        }
    }
    return 0;
}
