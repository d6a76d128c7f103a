/* expect: at-exit double-free */
/* A small object is freed twice, with 300 other frees between; nothing is flushed. */
#include "misuse.h"

int main(void)
{
    begin();

    enum { OTHERS = 300 };
    void *p = get(SMALL), *others[OTHERS];

    for (int i = 0; i < OTHERS; i++)
        others[i] = get(SMALL);
    free(p);
    for (int i = 0; i < OTHERS; i++)
        free(others[i]);
    free(p);
    after_bad_use();
    return 0;
}
