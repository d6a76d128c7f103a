/*
 * The functions that hand out memory, and those that take it back: a block remembers by which
 * it was made, and so by which it may be freed. What this C library and allocator do not have
 * (free_sized before C23, cfree, the C++ functions without libstdc++) is left out.
 */
#ifndef ENTRIES_H
#define ENTRIES_H

#include "attack.h"

/* Who may free a block: what takes it, and by which size and alignment. */
enum family { OF_MALLOC, OF_ALIGNED, OF_NEW, OF_NEW_ARRAY, OF_NEW_ALIGNED, OF_NEW_ARRAY_ALIGNED };

struct nothrow {
    char none;
};

/* Found by name: most are in no header of C. The names are those of the Itanium C++ ABI. */
static struct {
    void (*free_sized)(void *, size_t);
    void (*free_aligned_sized)(void *, size_t, size_t);
    void (*cfree)(void *);
    void *(*new[2])(size_t);
    void *(*new_nothrow[2])(size_t, const struct nothrow *);
    void *(*new_aligned[2])(size_t, size_t);
    void *(*new_aligned_nothrow[2])(size_t, size_t, const struct nothrow *);
    void (*delete[2])(void *);
    void (*delete_sized[2])(void *, size_t);
    void (*delete_nothrow[2])(void *, const struct nothrow *);
    void (*delete_aligned[2])(void *, size_t);
    void (*delete_sized_aligned[2])(void *, size_t, size_t);
} entries;
static const struct nothrow nothrow;
static int has_new;

static inline void find_entries(void)
{
    static const struct {
        void *to;
        const char *name;
    } all[] = {
        { &entries.free_sized, "free_sized" },
        { &entries.free_aligned_sized, "free_aligned_sized" },
        { &entries.cfree, "cfree" },
        { &entries.new[0], "_Znwm" },
        { &entries.new[1], "_Znam" },
        { &entries.new_nothrow[0], "_ZnwmRKSt9nothrow_t" },
        { &entries.new_nothrow[1], "_ZnamRKSt9nothrow_t" },
        { &entries.new_aligned[0], "_ZnwmSt11align_val_t" },
        { &entries.new_aligned[1], "_ZnamSt11align_val_t" },
        { &entries.new_aligned_nothrow[0], "_ZnwmSt11align_val_tRKSt9nothrow_t" },
        { &entries.new_aligned_nothrow[1], "_ZnamSt11align_val_tRKSt9nothrow_t" },
        { &entries.delete[0], "_ZdlPv" },
        { &entries.delete[1], "_ZdaPv" },
        { &entries.delete_sized[0], "_ZdlPvm" },
        { &entries.delete_sized[1], "_ZdaPvm" },
        { &entries.delete_nothrow[0], "_ZdlPvRKSt9nothrow_t" },
        { &entries.delete_nothrow[1], "_ZdaPvRKSt9nothrow_t" },
        { &entries.delete_aligned[0], "_ZdlPvSt11align_val_t" },
        { &entries.delete_aligned[1], "_ZdaPvSt11align_val_t" },
        { &entries.delete_sized_aligned[0], "_ZdlPvmSt11align_val_t" },
        { &entries.delete_sized_aligned[1], "_ZdaPvmSt11align_val_t" },
    };
    size_t n, found = 0;

    /* The C library's own malloc has the C++ functions of libstdc++ alone. */
    if (!dlsym(RTLD_DEFAULT, "_ZdaPvmSt11align_val_t"))
        (void)dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL);
    for (n = 0; n < sizeof all / sizeof *all; n++) {
        void *function = dlsym(RTLD_DEFAULT, all[n].name);

        memcpy(all[n].to, &function, sizeof function);
        found += n >= 3 && function != NULL;
    }
    has_new = found == sizeof all / sizeof *all - 3;
}

enum { NR_ENTRIES = 15 };

/*
 * Memory by the entry of this number. `align` is what was asked for, or comes back as what
 * the entry promises. `may_throw`: without memory a throwing form would end the program.
 */
static inline void *memory_by(size_t entry, size_t size, size_t *align, enum family *family, int may_throw)
{
    size_t usual = size < 16 ? 8 : 16, page = (size_t)sysconf(_SC_PAGESIZE), array = entry & 1;
    void *p = NULL;

    *family = OF_MALLOC;
    if (!has_new && entry >= 9)
        entry -= 9;
    switch (entry) {
    case 0:
        *align = usual;
        return malloc(size);
    case 1:
        *align = usual;
        p = calloc(1, size);
        CHECK(!p || all_zero(p, size), "calloc(%zu) at %p is not zero", size, p);
        return p;
    case 2:
        *align = usual;
        return realloc(NULL, size);
    case 3:
        *align = usual;
        return reallocarray(NULL, size, 1);
    case 4:
        *family = OF_ALIGNED;
        errno = posix_memalign(&p, *align, size);
        return errno ? NULL : p;
    case 5:
        *family = OF_ALIGNED;
        return aligned_alloc(*align, size);
    case 6:
        *family = OF_ALIGNED;
        return memalign(*align, size);
    case 7:
        *align = page;
        return valloc(size);
    case 8:
        *align = page;
        p = pvalloc(size);
        CHECK(!p || malloc_usable_size(p) >= ((size + page - 1) & ~(page - 1)), "%zu of pvalloc(%zu)",
              malloc_usable_size(p), size);
        return p;
    case 9:
    case 10:
        *family = array ? OF_NEW_ARRAY : OF_NEW;
        *align = usual;
        return may_throw ? entries.new[array](size) : entries.new_nothrow[array](size, &nothrow);
    case 11:
    case 12:
        *family = array ? OF_NEW_ARRAY : OF_NEW;
        *align = usual;
        return entries.new_nothrow[array](size, &nothrow);
    default:
        *family = array ? OF_NEW_ARRAY_ALIGNED : OF_NEW_ALIGNED;
        return may_throw && size % 2 ? entries.new_aligned[array](size, *align)
                                     : entries.new_aligned_nothrow[array](size, *align, &nothrow);
    }
}

/* Gives it back, in one of the ways that its family allows. */
static inline void free_by(void *p, size_t size, size_t align, enum family family, size_t way)
{
    size_t array = family == OF_NEW_ARRAY || family == OF_NEW_ARRAY_ALIGNED;

    switch (family) {
    case OF_MALLOC:
        if (way % 4 == 1 && entries.free_sized && align <= 16)
            entries.free_sized(p, size);
        else if (way % 4 == 2 && entries.cfree)
            entries.cfree(p);
        else
            free(p);
        break;
    case OF_ALIGNED:
        if (way % 2 && entries.free_aligned_sized)
            entries.free_aligned_sized(p, align, size);
        else
            free(p);
        break;
    case OF_NEW:
    case OF_NEW_ARRAY:
        if (way % 3 == 0)
            entries.delete[array](p);
        else if (way % 3 == 1)
            entries.delete_sized[array](p, size);
        else
            entries.delete_nothrow[array](p, &nothrow);
        break;
    default:
        if (way % 2)
            entries.delete_aligned[array](p, align);
        else
            entries.delete_sized_aligned[array](p, size, align);
    }
}

#endif
