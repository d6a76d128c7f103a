/* expect: not-caught overflow */
/* A string of 24 letters is copied into 24 bytes. */
#include "misuse.h"

int main(void)
{
    begin();

    char *p = (char *)get(24), *q = (char *)get(24);

    strcpy((char *)opaque(p), "abcdefghijklmnopqrstuvwx");
    free(p);
    free(q);
    after_bad_use();
    return 0;
}
