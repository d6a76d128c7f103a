/* expect: at-once invalid-pointer */
/* A function is freed. */
#include "misuse.h"

__attribute__((aligned(16), noinline)) static void function(void)
{
    __asm__ volatile("");
}

int main(void)
{
    begin();
    free(opaque((void *)(uintptr_t)function));
    return flush();
}
