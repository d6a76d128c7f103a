/* expect: fine none */
/* A null pointer is freed, many times. */
#include "misuse.h"

int main(void)
{
    begin();

    int n;

    for (n = 0; n < 1000; n++)
        free(opaque(NULL));
    return flush();
}
