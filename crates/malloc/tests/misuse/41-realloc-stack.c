/* expect: at-once invalid-pointer */
/* Memory of the stack is given to realloc. */
#include "misuse.h"

int main(void)
{
    begin();

    _Alignas(16) char bytes[64];

    opaque(realloc(opaque(bytes), 200));
    return flush();
}
