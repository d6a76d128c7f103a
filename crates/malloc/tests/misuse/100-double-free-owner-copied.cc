/* expect: at-once double-free */
/* A class with a raw pointer is copied, and both destructors free. */
#include "misuse.h"

struct Owner {
    char *bytes;

    explicit Owner(size_t n) : bytes(static_cast<char *>(opaque(malloc(n)))) {}
    ~Owner() { free(bytes); }
};

int main(void)
{
    begin();

    {
        Owner first(100);
        Owner other(100);
        Owner copy(first);
    }
    after_bad_use();
    return 0;
}
