/* expect: at-once invalid-pointer */
/* Memory of the stack is freed. */
#include "misuse.h"

int main(void)
{
    begin();

    _Alignas(16) char bytes[64];

    free(opaque(bytes));
    return flush();
}
