/* expect: at-once double-free */
/* After p, q, p two callers get the same object. */
#include "misuse.h"

int main(void)
{
    begin();

    void *p = get(SMALL), *q = get(SMALL);

    free(p);
    free(q);
    free(p);
    after_bad_use();
    char *first = get(SMALL), *second = get(SMALL), *third = get(SMALL);

    (void)second;
    strcpy(first, "first");
    strcpy(third, "third");
    if (strcmp(first, "first") != 0)
        _exit(0);
    return 0;
}
