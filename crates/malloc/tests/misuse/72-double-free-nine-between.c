/* expect: at-once double-free */
/* A small object is freed twice, with nine other frees between. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *others[9];

    for (int i = 0; i < 9; i++)
        others[i] = get(SMALL);
    free(p);
    for (int i = 0; i < 9; i++)
        free(others[i]);
    free(p);
    after_bad_use();
    return 0;
}
