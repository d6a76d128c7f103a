/* What caches with debugging must find; the variable CASE says which. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAR __attribute__((noinline, noclone))

static FAR void *make(size_t size)
{
    char *p = malloc(size);

    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

static FAR void give(void *p)
{
    free(p);
    __asm__ volatile("" : : : "memory");
}

/* A thread that nobody has numbered yet. */
static void *filtered_thread(void *argument)
{
    for (int i = 0; i < 100; i++)
        give(make(24 + (size_t)i));
    return argument;
}

static FAR void spoil(void *p, long at)
{
    volatile char *byte = p;

    byte[at] = 'A';
}

/* The last of so many large blocks, which alone is freed. */
static char *make_and_give_last(int n)
{
    char *last = NULL;

    while (n--)
        last = make(40000);
    give(last);
    return last;
}

static void *give_elsewhere(void *p)
{
    give(p);
    return NULL;
}

static char statics[64];

enum { PLACES = 512, THREADS = 12, TURNS = 20000 };

static void *_Atomic places[PLACES];

/* Puts what it allocates where another thread finds it, and frees what it finds there. Each
 * object holds its own address and size, which nobody else may change. */
static void leave(int signal)
{
    (void)signal;
    _exit(0);
}

static void *exchange(void *seed)
{
    unsigned long x = (unsigned long)seed * 2654435761u + 1;

    for (int i = 0; i < TURNS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;

        size_t size = 16 + (x >> 33) % 600;
        void **p = make(size), **old;

        p[0] = p;
        p[1] = (void *)size;
        memset(p + 2, (int)size, size - 16);
        old = atomic_exchange(&places[(x >> 20) % PLACES], p);
        if (old) {
            size_t had = (size_t)old[1];

            if (old[0] != old || malloc_usable_size(old) != had)
                abort();
            for (size_t k = 16; k < had; k++)
                if (((unsigned char *)old)[k] != (unsigned char)had)
                    abort();
            give(old);
        }
        if (i % 5000 == 0 && fork() == 0) {
            give(make(size));
            _exit(0);
        }
    }
    return NULL;
}

int main(void)
{
    const char *name = getenv("CASE");
    char local[64], *p = make(24), *q;
    pthread_t thread;

#define IS(text) (!strcmp(name, text))
    if (IS("sound")) {
        /* Each size once: further rounds would repeat these. */
        for (int i = 0; i < 40000; i++) {
            size_t n = i * 37 % 40000;
            char *one = make(n);

            if (malloc_usable_size(one) != n)
                return 2;
            memset(one, 1, n);
            one = realloc(one, n + i % 100);
            if (n && (one[0] != 1 || one[n - 1] != 1))
                return 3;
            give(one);
        }
        give(p);
    } else if (IS("threads")) {
        pthread_t all[THREADS];

        for (long i = 0; i < THREADS; i++)
            pthread_create(&all[i], NULL, exchange, (void *)i);
        for (int i = 0; i < THREADS; i++)
            pthread_join(all[i], NULL);
        while (wait(NULL) > 0)
            ;
    } else if (IS("over-by-1")) {
        spoil(p, 24);
        give(p);
    } else if (IS("over-by-8")) {
        memset(p + 24, 'A', 8);
        give(p);
    } else if (IS("over-by-16")) {
        memset(p + 24, 'A', 16);
        give(p);
    } else if (IS("over-far")) {
        memset(p + 24, 'A', 60);
        give(p);
    } else if (IS("under-by-1")) {
        spoil(p, -1);
        give(p);
    } else if (IS("under-by-8")) {
        memset(p - 8, 'A', 8);
        give(p);
    } else if (IS("over-never-freed")) {
        spoil(p, 24);
    } else if (IS("over-underscore")) {
        spoil(p, 24);
        _exit(0);
    } else if (IS("over-underscore-child")) {
        int status;

        if (fork() == 0) {
            spoil(p, 24);
            _exit(0);
        }
        wait(&status);
        if (WIFSIGNALED(status))
            abort();
    } else if (IS("large-child-few") || IS("large-child-many")) {
        /* The end of a child whose few calls do not pay for a look at all that its parent has. */
        static void *kept[40000];
        int status, few = IS("large-child-few");

        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
            kept[i] = make(200);
        if (fork() == 0) {
            spoil(p, 24);
            for (int i = few ? 39990 : 0; i < 40000; i++)
                give(make(24));
            _exit(0);
        }
        wait(&status);
        if (WIFSIGNALED(status))
            abort();
    } else if (IS("over-underscore-vfork")) {
        int status;
        char was = p[24];

        spoil(p, 24);
        if (vfork() == 0)
            _exit(7);
        wait(&status);
        p[24] = was;
        return WIFEXITED(status) && WEXITSTATUS(status) == 7 ? 0 : 2;
    } else if (IS("over-underscore-handler")) {
        static char stack[64 << 10];
        stack_t other = { .ss_sp = stack, .ss_size = sizeof stack };
        struct sigaction action = { .sa_handler = leave, .sa_flags = SA_ONSTACK };

        spoil(p, 24);
        sigaltstack(&other, NULL);
        sigaction(SIGUSR1, &action, NULL);
        raise(SIGUSR1);
        return 2;
    } else if (IS("over-string")) {
        strcpy(p, "these are twenty-four b.");
        give(p);
    } else if (IS("over-nothing")) {
        p = make(0);
        spoil(p, 0);
        give(p);
    } else if (IS("read-nothing")) {
        return *(volatile char *)calloc(0, 8);
    } else if (IS("over-calloc")) {
        p = calloc(3, 7);
        spoil(p, 21);
        give(p);
    } else if (IS("over-realloc")) {
        p = realloc(p, 41);
        spoil(p, 41);
        give(p);
    } else if (IS("over-realloc-shrunk")) {
        p = realloc(make(41), 40);
        spoil(p, 40);
        give(p);
    } else if (IS("over-aligned")) {
        p = aligned_alloc(64, 64);
        spoil(p, 64);
        give(p);
    } else if (IS("over-aligned-page")) {
        p = aligned_alloc(4096, 100);
        spoil(p, 100);
        give(p);
    } else if (IS("over-large")) {
        p = make(100000);
        spoil(p, 100000);
        give(p);
    } else if (IS("over-large-never-freed")) {
        p = make(100000);
        spoil(p, 100000);
    } else if (IS("over-large-page")) {
        p = make(100000);
        spoil(p, 100000 + 4096);
    } else if (IS("write-after-free")) {
        give(p);
        spoil(p, 3);
    } else if (IS("write-after-free-reused")) {
        give(p);
        spoil(p, 3);
        for (int i = 0; i < 3000; i++)
            give(make(24));
    } else if (IS("write-zone-after-free")) {
        give(p);
        spoil(p, -2);
    } else if (IS("write-after-free-large")) {
        p = make(100000);
        give(p);
        spoil(p, 5);
    } else if (IS("write-after-free-large-of-many")) {
        /* So many that the last of them has no guard page. */
        spoil(make_and_give_last(5000), 5);
    } else if (IS("write-after-free-large-of-many-reused")) {
        spoil(make_and_give_last(5000), 5);
        give(make(40000));
    } else if (IS("write-after-trim")) {
        give(p);
        malloc_trim(0);
        spoil(p, 3);
    } else if (IS("write-after-trim-reused")) {
        give(p);
        malloc_trim(0);
        spoil(p, 3);
        for (int i = 0; i < 1000; i++)
            make(24);
    } else if (IS("read-after-free-large")) {
        p = make(100000);
        give(p);
        return p[5];
    } else if (IS("read-after-free")) {
        p[4] = 1;
        give(p);
        return *(volatile char *)(p + 4) == 0x6b ? 0 : 1;
    } else if (IS("read-uninitialised")) {
        return *(volatile char *)(p + 4) == 0x5a ? 0 : 1;
    } else if (IS("twice")) {
        give(p);
        give(p);
    } else if (IS("twice-after-others")) {
        give(p);
        for (int i = 0; i < 500; i++)
            give(make(24));
        give(p);
    } else if (IS("twice-by-thread")) {
        pthread_create(&thread, NULL, give_elsewhere, p);
        pthread_join(thread, NULL);
        give(p);
    } else if (IS("twice-large")) {
        p = make(100000);
        give(p);
        give(p);
    } else if (IS("twice-large-after-others")) {
        p = make(100000);
        give(p);
        for (int i = 0; i < 10; i++)
            give(make(100000));
        give(p);
    } else if (IS("inside")) {
        give(p + 16);
    } else if (IS("inside-odd")) {
        give(p + 1);
    } else if (IS("inside-large")) {
        give((char *)make(100000) + 4096);
    } else if (IS("wild")) {
        give((void *)0x123456789a0);
    } else if (IS("stack")) {
        give(local);
    } else if (IS("static")) {
        give(statics);
    } else if (IS("foreign")) {
        give(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    } else if (IS("realloc-freed")) {
        give(p);
        q = realloc(p, 100);
    } else if (IS("usable-freed")) {
        give(p);
        return malloc_usable_size(p);
    } else if (IS("child")) {
        /* What the parent freed, the child of a fork frees. */
        give(p);
        if (fork() == 0) {
            give(p);
            _exit(0);
        }
        int status = 0;

        wait(&status);
        if (WIFSIGNALED(status))
            abort();
    } else if (IS("filtered")) {
        /* Who asks for a thread's number is killed. */
        struct sock_filter steps[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_gettid, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog filter = { 4, steps };
        pthread_t id;

        give(make(24));
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
            return 0;
        pthread_create(&id, NULL, filtered_thread, NULL);
        pthread_join(id, NULL);
        for (int i = 0; i < 100; i++)
            give(make(24 + (size_t)i));
    } else if (IS("fails")) {
        int failed = 0;

        for (int i = 0; i < 100; i++) {
            q = make(200);
            failed += !q;
            give(q);
        }
        printf("%d\n", failed);
    } else if (IS("waits")) {
        /* Another process validates us, after we spoiled something. */
        q = make(24);
        puts("ready");
        fflush(stdout);
        for (int c; (c = getchar()) != EOF;) {
            if (c == 's')
                spoil(q, 24);
            for (int i = 0; i < 50; i++) {
                give(make(24));
                usleep(10000);
            }
        }
        return 0;
    } else {
        return 99;
    }
    return 0;
}
