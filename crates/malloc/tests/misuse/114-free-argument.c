/* expect: at-once invalid-pointer */
/* An argument of the program is freed. */
#include "misuse.h"

int main(int argc, char **argv)
{
    begin();

    free(opaque(argv[0]));
    after_bad_use();
    return 0;
}
