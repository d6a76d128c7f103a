/*
 * A library that holds an allocator is opened, used and closed, by the main
 * thread and by others, and everything goes on: what it registered (handlers of
 * fork and of a thread's end, sequences of threads) is not left dangling. The
 * library is UNLOADED_LIBRARY, or the one that has this process's `malloc`.
 */
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

static void *(*take)(size_t);
static void (*give)(void *);

static void *use(void *arg)
{
    void *blocks[500];
    size_t n;

    for (n = 0; n < 500; n++)
        fill(blocks[n] = take(16 + n * 40), 16 + n * 40, n);
    for (n = 0; n < 500; n++) {
        CHECK(intact(blocks[n], 16 + n * 40, n), "block %zu", n);
        give(blocks[n]);
    }
    return arg;
}

static void *use_and_wait(void *arg)
{
    pthread_barrier_t *barrier = arg;

    use(NULL);
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return NULL;
}

int main(void)
{
    const char *name = getenv("UNLOADED_LIBRARY");
    pthread_barrier_t barrier;
    pthread_t waiting, late;
    int round, status;
    Dl_info info;
    void *kept;

    if (!name && dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info))
        name = info.dli_fname;
    pthread_barrier_init(&barrier, NULL, 2);
    for (round = 0; round < 3; round++) {
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

        CHECK(library, "%s: %s", name, dlerror());
        if (!library)
            return finish("unloaded");
        take = (void *(*)(size_t))dlsym(library, "malloc");
        give = (void (*)(void *))dlsym(library, "free");
        use(NULL);
        fill(kept = take(3000), 3000, 3);
        /* This thread ends when the library is closed. */
        pthread_create(&waiting, NULL, use_and_wait, &barrier);
        pthread_barrier_wait(&barrier);
        CHECK(dlclose(library) == 0, "dlclose");
        pthread_barrier_wait(&barrier);
        pthread_join(waiting, NULL);
        CHECK(intact(kept, 3000, 3), "a block is gone with the library");
        if (fork() == 0)
            _exit(intact(kept, 3000, 3) ? 0 : 1);
        CHECK(wait(&status) > 0 && status == 0, "a child: status %#x", (unsigned)status);
        /* A pointer to it that was kept still works. */
        pthread_create(&late, NULL, use, NULL);
        pthread_join(late, NULL);
        give(kept);
    }
    return finish("unloaded");
}
