/*
 * Calls before any constructor, constructors of all kinds, and libraries that
 * come and go.
 */
#include "check.h"
#include <libgen.h>
#include <pthread.h>

const char *linked_written(void);
void *linked_keep(size_t size);
void linked_take(void *p);

/* --- while the loader still relocates this program ----------------------- */

static char *from_resolver;

static int answer_body(void)
{
    return 42;
}

/* Not only is main far: this program's own data may not be relocated yet. */
static int (*resolve_answer(void))(void)
{
    free(NULL);
    from_resolver = malloc(123);
    if (from_resolver)
        from_resolver[0] = from_resolver[122] = 'r';
    free(malloc(30));
    return answer_body;
}

int answer(void) __attribute__((ifunc("resolve_answer")));

/* --- before the constructors of libraries -------------------------------- */

static void *from_preinit, *large_from_preinit;

static void before_all(int argc, char **argv, char **environment)
{
    (void)argc, (void)argv, (void)environment;
    free(NULL);
    free(malloc(1));
    from_preinit = malloc(1000);
    if (from_preinit)
        fill(from_preinit, 1000, 1);
    large_from_preinit = calloc(1, 3 << 20);
}

__attribute__((section(".preinit_array"), used)) static void (*preinit)(int, char **,
                                                                        char **) = before_all;

static char *from_constructor;

__attribute__((constructor(101))) static void first(void)
{
    from_constructor = malloc(50);
    from_constructor[49] = 'f';
}

__attribute__((constructor)) static void last(void)
{
    CHECK(from_constructor && from_constructor[49] == 'f', "the first constructor's block");
    from_constructor = realloc(from_constructor, 5000);
    from_constructor[4999] = 'l';
}

/* --- libraries that come and go ------------------------------------------ */

static char plugin[4096];

static void find_plugin(void)
{
    char self[4000];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    self[n < 0 ? 0 : n] = 0;
    snprintf(plugin, sizeof plugin, "%s/early_plugin.so", dirname(self));
}

/* Opens, uses, closes; gives back a block that the library made. */
static void *open_and_close(size_t size)
{
    void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
    const char *(*written)(void);
    void *(*keep)(size_t);
    void (*take)(void *);
    void *p;

    CHECK(library, "%s", library ? "" : dlerror());
    if (!library)
        return NULL;
    written = (const char *(*)(void))dlsym(library, "plugin_written");
    keep = (void *(*)(size_t))dlsym(library, "plugin_keep");
    take = (void (*)(void *))dlsym(library, "plugin_take");
    CHECK(written && keep && take, "a symbol is missing");
    if (!written || !keep || !take)
        return NULL;
    CHECK(written()[0] == 'c' && written()[99] == 'c', "the constructor's block");
    p = keep(size);
    CHECK(p && all_zero(p, size), "a block of the library");
    fill(p, size, size);
    take(malloc(size));
    dlclose(library);
    return p;
}

static void *opener(void *arg)
{
    enum { KEPT = 50 };
    void *kept[KEPT] = { 0 };
    size_t n, rounds = (size_t)(uintptr_t)arg;

    for (n = 0; n < rounds && !nr_failed; n++) {
        size_t i = n % KEPT;

        if (kept[i])
            CHECK(intact(kept[i], 30 + n - KEPT, 30 + n - KEPT), "a block that outlived its library");
        free(kept[i]);
        kept[i] = open_and_close(30 + n);
    }
    for (n = 0; n < KEPT; n++)
        free(kept[n]);
    return NULL;
}

int main(void)
{
    pthread_t thread[4];
    void *p;
    int n;

    CHECK(answer() == 42, "the resolved function");
    CHECK(from_resolver && from_resolver[0] == 'r' && from_resolver[122] == 'r',
          "the resolver's block");
    CHECK(from_preinit && intact(from_preinit, 1000, 1), "the block of before all");
    CHECK(large_from_preinit && all_zero(large_from_preinit, 3 << 20), "its large block");
    CHECK(from_constructor && from_constructor[49] == 'f' && from_constructor[4999] == 'l',
          "the constructors' block");
    from_preinit = realloc(from_preinit, 100000);
    CHECK(intact(from_preinit, 1000, 1), "the early block after realloc");
    free(from_preinit);
    free(large_from_preinit);
    free(from_resolver);
    free(from_constructor);

    CHECK(linked_written()[99] == 'c', "the linked library's constructor");
    p = linked_keep(777);
    CHECK(all_zero(p, 777), "the linked library's block");
    linked_take(p);

    find_plugin();
    opener((void *)(uintptr_t)1000);
    for (n = 0; n < 4; n++)
        if (pthread_create(&thread[n], NULL, opener, (void *)(uintptr_t)100))
            exit(2);
    for (n = 0; n < 4; n++)
        pthread_join(thread[n], NULL);
    return finish("early");
}
