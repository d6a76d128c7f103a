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
    return finish("exports");
}
