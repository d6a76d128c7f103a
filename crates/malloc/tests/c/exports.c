/*
 * Every call of the interface is served by the library, none by the C library
 * or by libstdc++ behind its back: a mixture of two allocators breaks both.
 */
#include "check.h"

/* Operators of C++ by their names in the symbol table: m is size_t. */
static const char *const names[] = {
    "malloc", "calloc", "realloc", "reallocarray", "free", "posix_memalign", "aligned_alloc",
    "memalign", "valloc", "pvalloc", "malloc_usable_size", "malloc_trim", "mallinfo", "mallinfo2",
    "malloc_info", "mallopt", "malloc_stats", "free_sized", "free_aligned_sized",
    /* glibc's further names, cfree among them. */
    "cfree", "__libc_malloc", "__libc_free", "__libc_calloc", "__libc_realloc", "__libc_memalign",
    "__libc_valloc", "__libc_pvalloc",
    /* What a report needs to know of. */
    "_exit", "_Exit",
    /* new: plain, array, nothrow, aligned, aligned nothrow */
    "_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t", "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t", "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    /* delete: the same, and sized */
    "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm", "_ZdlPvRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t", "_ZdaPvSt11align_val_t", "_ZdlPvmSt11align_val_t",
    "_ZdaPvmSt11align_val_t", "_ZdlPvSt11align_val_tRKSt9nothrow_t",
    "_ZdaPvSt11align_val_tRKSt9nothrow_t",
};

/* Memory of each function of one family is freed by the other's. */
static void exchange_families(void)
{
    void *(*malloc_)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "__libc_malloc");
    void *(*calloc_)(size_t, size_t) = (void *(*)(size_t, size_t))dlsym(RTLD_DEFAULT, "__libc_calloc");
    void *(*realloc_)(void *, size_t) = (void *(*)(void *, size_t))dlsym(RTLD_DEFAULT, "__libc_realloc");
    void *(*memalign_)(size_t, size_t) = (void *(*)(size_t, size_t))dlsym(RTLD_DEFAULT, "__libc_memalign");
    void (*free_)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "__libc_free");
    static const size_t sizes[] = { 0, 1, 100, 5000, 50000, 300000, 3000000 };
    size_t n;

    if (!malloc_ || !calloc_ || !realloc_ || !memalign_ || !free_)
        return;
    for (n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        char *p = calloc_(sizes[n], 1);

        CHECK(p && (sizes[n] == 0 || (p[0] == 0 && p[sizes[n] - 1] == 0)), "calloc of %zu", sizes[n]);
        free(malloc_(sizes[n]));
        free(realloc(p, sizes[n] + 1));
        free(realloc_(malloc(sizes[n]), 2 * sizes[n] + 1));
        free_(malloc(sizes[n]));
        free_(realloc_(calloc(sizes[n], 1), sizes[n] / 2 + 1));
        p = memalign_(256, sizes[n]);
        CHECK(p && (uintptr_t)p % 256 == 0, "memalign: %p", (void *)p);
        free(p);
    }
}

int main(void)
{
    void *verify = dlsym(RTLD_DEFAULT, "slabyard_verify");
    Dl_info library, found;
    size_t n;

    CHECK(verify && dladdr(verify, &library), "the library is not loaded");
    for (n = 0; verify && n < sizeof names / sizeof names[0]; n++) {
        void *function = dlsym(RTLD_DEFAULT, names[n]);

        CHECK(function, "%s is nowhere", names[n]);
        if (function && dladdr(function, &found))
            CHECK(found.dli_fbase == library.dli_fbase, "%s is in %s", names[n], found.dli_fname);
    }
    exchange_families();
    return finish("exports");
}
