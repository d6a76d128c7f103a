/*
 * A library that is loaded with RTLD_DEEPBIND frees what the C library took from this
 * allocator, and the program frees what that library took: all of it is one allocator's.
 * Compiled twice: with PLUGIN it is the library, beside the program.
 */
#ifdef PLUGIN

#include <stdlib.h>
#include <string.h>

char *plugin_copy(const char *text);
void plugin_free(void *p);

char *plugin_copy(const char *text)
{
    char *first = strdup(text), *copy = malloc(strlen(text) + 1);

    strcpy(copy, first);
    free(first);
    return copy;
}

void plugin_free(void *p)
{
    free(p);
}

#else

#include "check.h"

int main(int argc, char **argv)
{
    char *(*copy)(const char *);
    void (*release)(void *);
    char path[4096];
    char *slash;
    void *plugin;
    int n;

    CHECK(argc > 0 && strlen(argv[0]) < sizeof path - 40, "no path");
    strcpy(path, argv[0]);
    slash = strrchr(path, '/');
    strcpy(slash ? slash + 1 : path, "deepbind_plugin.so");
    plugin = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
    CHECK(plugin, "%s", dlerror());
    if (!plugin)
        return finish("deepbind");
    *(void **)&copy = dlsym(plugin, "plugin_copy");
    *(void **)&release = dlsym(plugin, "plugin_free");
    for (n = 0; n < 1000; n++) {
        char *text = copy("a text that is no constant");

        CHECK(strcmp(text, "a text that is no constant") == 0, "%s", text);
        free(text);
        release(strdup("another"));
        release(opaque(malloc((size_t)n * 300)));
    }
    CHECK(!dlopen("/nonexistent/library.so", RTLD_NOW), "it was found");
    CHECK(dlerror(), "no error is told");
    CHECK(dlopen(NULL, RTLD_NOW), "the program itself");
    return finish("deepbind");
}

#endif
