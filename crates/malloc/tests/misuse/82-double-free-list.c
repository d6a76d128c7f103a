/* expect: at-once double-free */
/* A list is freed, then freed again from its begin. */
#include "misuse.h"

int main(void)
{
    begin();

    void *nodes[20];

    for (int i = 0; i < 20; i++)
        nodes[i] = get(48);
    for (int i = 0; i < 20; i++)
        free(nodes[i]);
    for (int i = 0; i < 20; i++)
        free(nodes[i]);
    after_bad_use();
    return 0;
}
