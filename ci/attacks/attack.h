/*
 * What the attacks share, beside the checks of `crates/malloc/tests/c/check.h`:
 * numbers on the command line, threads, the end of an attack that this machine
 * does not allow, and time for the allocator to give pages back.
 *
 * An attack ends with 0 if all was well, with 77 if it is not possible here.
 */
#ifndef ATTACK_H
#define ATTACK_H

#include "check.h"
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>

enum { NOT_POSSIBLE = 77, MAX_THREADS = 64 };

static inline void __attribute__((noreturn)) not_possible(const char *what)
{
    fprintf(stderr, "not possible here: %s: %s\n", what, strerror(errno));
    _exit(NOT_POSSIBLE);
}

static inline void __attribute__((noreturn)) usage(const char *text)
{
    fprintf(stderr, "usage: %s\n", text);
    _exit(2);
}

/* What stands behind `name=` in the last word that begins so, or NULL. */
static inline const char *text_of(char **words, const char *name)
{
    size_t n = strlen(name);
    const char *text = NULL;

    for (; *words; words++)
        if (strncmp(*words, name, n) == 0 && (*words)[n] == '=')
            text = *words + n + 1;
    return text;
}

static inline long number_of(char **words, const char *name, long otherwise)
{
    const char *text = text_of(words, name);

    return text ? strtol(text, NULL, 0) : otherwise;
}

static inline int has_word(char **words, const char *word)
{
    for (; *words; words++)
        if (strcmp(*words, word) == 0)
            return 1;
    return 0;
}

/* A child of ours ended, and well. */
static inline void expect_good_end(pid_t pid, const char *what)
{
    int status = -1;

    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        status = -1;
    CHECK(status == 0, "%s ended with status %#x", what, (unsigned)status);
}

/* The child of a fork: it does what `live` does, and so does a child of its own. */
static inline void child(void (*live)(void), int has_children)
{
    live();
    if (has_children) {
        pid_t pid = fork();

        if (pid == 0) {
            live();
            _exit(nr_failed != 0);
        }
        expect_good_end(pid, "a child's child");
    }
    verify_yard("in the child");
    _exit(nr_failed != 0);
}

/*
 * Lets what is free grow old (`SLABYARD_DECAY_MS` is 20 here), with calls in
 * between: old pages go back when someone allocates or frees.
 */
static inline void grow_old(void)
{
    int n, i;

    for (n = 0; n < 10; n++) {
        for (i = 0; i < 40; i++) {
            void *p = opaque(malloc(40000)), *q = opaque(malloc(700));

            free(p);
            free(q);
        }
        usleep(15000);
    }
}

#endif
