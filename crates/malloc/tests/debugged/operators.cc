/* A program whose own `new` and `delete` are above malloc: its sized `delete` and its arrays' ones
 * are the library's. */
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

void *operator new(std::size_t bytes)
{
    void *p = std::malloc(bytes ? bytes : 1);

    if (!p)
        throw std::bad_alloc();
    return p;
}

void operator delete(void *p) noexcept
{
    std::free(p);
}

template <class T> static T *hidden(T *p)
{
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

struct Pair {
    int a[50];
};

int main()
{
    delete hidden(new Pair);
    ::operator delete(hidden(::operator new(40)), std::size_t(40));
    delete[] hidden(new Pair[3]);

    std::vector<std::string> all;

    for (int i = 0; i < 1000; i++)
        all.push_back(std::string(i, 'x'));
    return 0;
}
