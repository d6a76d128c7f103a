// The operators of C++ in all forms, their failures, and containers in threads.
#include "check.h"

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

// More than any allocator can give, and unknown to the compiler.
volatile std::size_t too_much = static_cast<std::size_t>(PTRDIFF_MAX) - 4096;
const std::size_t sizes[] = {0, 1, 16, 40, 64, 200, 1000, 5000, 20000, 100000, 3 << 20};

void used(void *p, std::size_t size, std::size_t alignment)
{
    p = opaque(p);
    CHECK(p && aligned_to(p, alignment), "%p, size %zu, alignment %zu", p, size, alignment);
    fill(p, size, size);
    CHECK(intact(p, size, size), "size %zu", size);
}

void plain_forms()
{
    for (std::size_t size : sizes) {
        for (int n = 0; n < (size < 10000 ? 100 : 4); n++) {
            void *p[8];

            p[0] = ::operator new(size);
            p[1] = ::operator new[](size);
            p[2] = ::operator new(size, std::nothrow);
            p[3] = ::operator new[](size, std::nothrow);
            p[4] = ::operator new(size);
            p[5] = ::operator new[](size);
            p[6] = ::operator new(size);
            p[7] = ::operator new[](size);
            for (void *each : p)
                used(each, size, 16);
            ::operator delete(p[0]);
            ::operator delete[](p[1]);
            ::operator delete(p[2], std::nothrow);
            ::operator delete[](p[3], std::nothrow);
            ::operator delete(p[4], size);
            ::operator delete[](p[5], size);
            ::operator delete(p[6]);
            ::operator delete[](p[7]);
        }
    }
    void *none = nullptr;
    ::operator delete(opaque(none));
    ::operator delete[](opaque(none));
    ::operator delete(opaque(none), std::size_t{8});
    ::operator delete[](opaque(none), std::size_t{8});
    ::operator delete(opaque(none), std::nothrow);
    ::operator delete[](opaque(none), std::nothrow);
}

void aligned_forms()
{
    for (std::size_t alignment = 16; alignment <= (1 << 18); alignment *= 4) {
        const std::align_val_t to{alignment};

        for (std::size_t size : sizes) {
            void *p[6];

            p[0] = ::operator new(size, to);
            p[1] = ::operator new[](size, to);
            p[2] = ::operator new(size, to, std::nothrow);
            p[3] = ::operator new[](size, to, std::nothrow);
            p[4] = ::operator new(size, to);
            p[5] = ::operator new[](size, to);
            for (void *each : p)
                used(each, size, alignment);
            ::operator delete(p[0], to);
            ::operator delete[](p[1], to);
            ::operator delete(p[2], to, std::nothrow);
            ::operator delete[](p[3], to, std::nothrow);
            ::operator delete(p[4], size, to);
            ::operator delete[](p[5], size, to);
        }
    }
    void *none = nullptr;
    ::operator delete(opaque(none), std::align_val_t{64});
    ::operator delete[](opaque(none), std::size_t{8}, std::align_val_t{64});
}

template <typename Call>
bool throws_bad_alloc(Call call)
{
    try {
        opaque(call());
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

struct Large {
    alignas(128) char bytes[640];
    explicit Large(int n) { std::fill(std::begin(bytes), std::end(bytes), static_cast<char>(n)); }
};

struct Thrower {
    char bytes[100];
    Thrower() { throw std::runtime_error("constructor"); }
};

void failures()
{
    const std::align_val_t to{256};

    CHECK(throws_bad_alloc([] { return ::operator new(too_much); }), "new");
    CHECK(throws_bad_alloc([] { return ::operator new[](too_much); }), "new[]");
    CHECK(throws_bad_alloc([=] { return ::operator new(too_much, to); }), "aligned new");
    CHECK(throws_bad_alloc([=] { return ::operator new[](too_much, to); }), "aligned new[]");
    CHECK(!opaque(::operator new(too_much, std::nothrow)), "nothrow new");
    CHECK(!opaque(::operator new[](too_much, std::nothrow)), "nothrow new[]");
    CHECK(!opaque(::operator new(too_much, to, std::nothrow)), "aligned nothrow new");
    CHECK(!opaque(::operator new[](too_much, to, std::nothrow)), "aligned nothrow new[]");

    // Memory of an object whose constructor throws goes back by itself.
    for (int n = 0; n < 1000; n++) {
        bool caught = false;
        try {
            opaque(new Thrower);
        } catch (const std::runtime_error &) {
            caught = true;
        }
        CHECK(caught, "round %d", n);
    }
}

int nr_calls;

void give_up_after_three()
{
    if (++nr_calls == 3)
        std::set_new_handler(nullptr);
}

struct Refused : std::bad_alloc {};

void throw_own()
{
    if (++nr_calls == 5)
        throw Refused();
}

void new_handlers()
{
    nr_calls = 0;
    std::set_new_handler(give_up_after_three);
    CHECK(throws_bad_alloc([] { return ::operator new(too_much); }), "after the handler is gone");
    CHECK(nr_calls == 3, "called %d times", nr_calls);

    nr_calls = 0;
    std::set_new_handler(throw_own);
    bool own = false;
    try {
        opaque(::operator new[](too_much));
    } catch (const Refused &) {
        own = true;
    }
    CHECK(own && nr_calls == 5, "the handler's own exception; called %d times", nr_calls);

    // The nothrow forms turn the handler's exception into null.
    nr_calls = 0;
    CHECK(!opaque(::operator new(too_much, std::nothrow)), "nothrow with a handler that throws");
    CHECK(nr_calls == 5, "called %d times", nr_calls);
    nr_calls = 0;
    CHECK(!opaque(::operator new(too_much, std::align_val_t{64}, std::nothrow)), "aligned");
    CHECK(nr_calls == 5, "called %d times", nr_calls);

    // malloc itself never calls the handler.
    nr_calls = 0;
    CHECK(!opaque(malloc(too_much)) && nr_calls == 0, "malloc called the handler");

    std::set_new_handler(nullptr);
}

// A handler that frees something each time it is called.
std::vector<void *> ballast;

void drop_ballast()
{
    nr_calls++;
    if (ballast.empty()) {
        std::set_new_handler(nullptr);
        return;
    }
    free(ballast.back());
    ballast.pop_back();
}

void handler_frees()
{
    const std::size_t piece = std::size_t{1} << 45;

    // Takes address space in pieces until it is used up, then asks for more:
    // the handler must give pieces back until the call is served.
    ballast.reserve(64);
    while (ballast.size() < 64) {
        void *p = opaque(malloc(piece));
        if (!p)
            break;
        ballast.push_back(p);
    }
    if (ballast.empty() || ballast.size() == 64)
        return; // An overcommit rule refuses all of it, or there is no end.
    nr_calls = 0;
    std::set_new_handler(drop_ballast);
    void *p = nullptr;
    try {
        p = ::operator new(piece);
    } catch (const std::bad_alloc &) {
    }
    std::set_new_handler(nullptr);
    CHECK(opaque(p) && nr_calls >= 1, "%p after %d calls", p, nr_calls);
    ::operator delete(p);
    for (void *each : ballast)
        free(each);
    ballast.clear();
}

struct PerThread {
    std::map<int, std::string> names;
    ~PerThread() { CHECK(names.size() > 3, "a thread's map has %zu", names.size()); }
};
thread_local PerThread per_thread;

std::mutex shared_lock;
std::deque<std::unique_ptr<std::string>> shared;

void work(unsigned seed)
{
    std::vector<std::unique_ptr<Large>> large;
    std::list<std::vector<int>> lists;
    std::unordered_map<std::string, std::shared_ptr<std::vector<char>>> table;
    uint64_t random = seed * 2654435761u + 1;

    for (int n = 0; n < 4000; n++) {
        const auto r = next_random(&random);
        const auto key = "key of some length " + std::to_string(r % 500);

        table[key] = std::make_shared<std::vector<char>>(r % 3000, static_cast<char>(r % 500));
        if (const auto found = table.find("key of some length 7"); found != table.end())
            CHECK(std::all_of(found->second->begin(), found->second->end(),
                              [](char c) { return c == 7; }),
                  "a vector changed");
        if (n % 3 == 0)
            lists.emplace_back(r % 200, n);
        if (lists.size() > 50)
            lists.pop_front();
        if (n % 16 == 0)
            large.push_back(std::make_unique<Large>(n));
        per_thread.names[n % 64] += "x";
        if (n % 8 == 0) {
            std::lock_guard<std::mutex> hold(shared_lock);
            shared.push_back(std::make_unique<std::string>(r % 2000, 'a'));
            if (shared.size() > 100) {
                CHECK(shared.front()->find_first_not_of('a') == std::string::npos,
                      "another thread's string changed");
                shared.pop_front();
            }
        }
    }
    for (const auto &each : large)
        CHECK(aligned_to(each.get(), 128) && each->bytes[0] == each->bytes[639], "%p",
              static_cast<void *>(each.get()));
}

} // namespace

int main()
{
    plain_forms();
    aligned_forms();
    failures();
    new_handlers();
    handler_frees();

    std::vector<std::thread> threads;
    for (unsigned n = 0; n < 8; n++)
        threads.emplace_back(work, n + 1);
    for (auto &each : threads)
        each.join();
    shared.clear();
    return finish("cxx");
}
