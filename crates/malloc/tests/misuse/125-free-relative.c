/* expect: at-once invalid-pointer */
/* The distance of two pointers is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    char *p = (char *)get(SMALL), *q = (char *)get(SMALL);

    free(opaque((void *)(q - p)));
    after_bad_use();
    return 0;
}
