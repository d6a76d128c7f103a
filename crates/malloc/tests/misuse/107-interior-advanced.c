/* expect: at-once interior */
/* A pointer that a loop moved on is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    char *text = (char *)get(400);

    while (*text && (uintptr_t)text % 256 != 240)
        text++;
    free(behind(text, -(ptrdiff_t)((uintptr_t)text % 16)));
    after_bad_use();
    return 0;
}
