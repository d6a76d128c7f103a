/* expect: at-once double-free */
/* A handler of atexit frees what the program has freed already. */
#include "misuse.h"

static void *p;

static void again(void)
{
    free(p);
    after_bad_use();
}

int main(void)
{
    begin();

    void *q = get(SMALL);

    p = get(SMALL);
    atexit(again);
    free(p);
    free(q);
    return 0;
}
