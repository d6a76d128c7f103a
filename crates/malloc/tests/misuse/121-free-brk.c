/* expect: at-once invalid-pointer */
/* Memory of sbrk is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    char *p = (char *)sbrk(4096);

    free(opaque(p + 16));
    after_bad_use();
    return 0;
}
