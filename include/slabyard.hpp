/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Slabyard's object caches for C++ programs, on the functions of slabyard.h.
 *
 *   slabyard::allocator<T>       for containers of nodes (std::list, std::map, std::unordered_map,
 *                                std::shared_ptr): single objects are of a cache of their size
 *   slabyard::cache_resource     a std::pmr::memory_resource: blocks of one size are of a cache of
 *                                its own, which `slabyard list` shows by its name, others blocks of
 *                                any size
 *
 *   std::map<int, std::string, std::less<>, slabyard::allocator<std::pair<const int, std::string>>> names;
 *
 *   slabyard::cache_resource nodes("order-nodes", 48);
 *   std::pmr::list<order> orders(&nodes);
 *
 * Without memory both throw std::bad_alloc. C++17.
 */
#ifndef SLABYARD_HPP
#define SLABYARD_HPP

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <type_traits>

#include <slabyard.h>

namespace slabyard {

namespace detail {

/* What slabyard_kmalloc guarantees, and the largest object of a cache. */
inline constexpr std::size_t block_align = 16;
inline constexpr std::size_t largest_object = 32768;
inline constexpr std::size_t largest_align = 16384;

inline slabyard_cache *make_cache(const char *name, std::size_t size, std::size_t align) noexcept
{
	slabyard_cache_args args = SLABYARD_CACHE_ARGS;
	args.align = align < 8 ? 8 : align;
	return slabyard_cache_create(name, size, &args);
}

/* A block of any size; where it is aligned to more than all blocks are, its begin is stored before it. */
inline void *allocate_block(std::size_t bytes, std::size_t align)
{
	if (bytes == 0)
		bytes = 1;
	if (align <= block_align) {
		if (void *block = slabyard_kmalloc(bytes))
			return block;
		throw std::bad_alloc();
	}
	if (bytes > std::numeric_limits<std::ptrdiff_t>::max() - align - sizeof(void *))
		throw std::bad_alloc();
	void *begin = slabyard_kmalloc(bytes + align + sizeof(void *));
	if (begin == nullptr)
		throw std::bad_alloc();
	std::size_t past = (reinterpret_cast<std::uintptr_t>(begin) + sizeof(void *)) % align;
	char *block = static_cast<char *>(begin) + sizeof(void *) + (past == 0 ? 0 : align - past);
	reinterpret_cast<void **>(block)[-1] = begin;
	return block;
}

inline void free_block(void *block, std::size_t align) noexcept
{
	slabyard_kfree(align <= block_align ? block : static_cast<void **>(block)[-1]);
}

/*
 * The cache of all objects of a size and alignment, made once and never destroyed, because objects may
 * be freed while the program ends. A library that was loaded has perhaps made one of the same name, and
 * hides it; then the next name is free.
 */
template <std::size_t size, std::size_t align> slabyard_cache *cache_of_size()
{
	static slabyard_cache *const cache = [] {
		char name[32];
		for (int nth = 0; nth < 100; nth++) {
			std::snprintf(name, sizeof name, nth == 0 ? "c++-%zu-%zu" : "c++-%zu-%zu-%d", size, align, nth);
			if (slabyard_cache *made = make_cache(name, size, align))
				return made;
		}
		return static_cast<slabyard_cache *>(nullptr);
	}();
	if (cache == nullptr)
		throw std::bad_alloc();
	return cache;
}

} // namespace detail

/* An allocator without state: all of one type are equal. */
template <class T> class allocator {
public:
	using value_type = T;
	using is_always_equal = std::true_type;

	allocator() noexcept = default;
	template <class U> allocator(const allocator<U> &) noexcept {}

	T *allocate(std::size_t count)
	{
		if constexpr (in_cache) {
			if (count == 1) {
				if (void *object = slabyard_cache_alloc(detail::cache_of_size<sizeof(T), alignof(T)>()))
					return static_cast<T *>(object);
				throw std::bad_alloc();
			}
		}
		if (count > std::numeric_limits<std::ptrdiff_t>::max() / sizeof(T))
			throw std::bad_array_new_length();
		return static_cast<T *>(detail::allocate_block(count * sizeof(T), alignof(T)));
	}

	void deallocate(T *objects, std::size_t count) noexcept
	{
		if constexpr (in_cache) {
			if (count == 1) {
				slabyard_cache_free(detail::cache_of_size<sizeof(T), alignof(T)>(), objects);
				return;
			}
		}
		detail::free_block(objects, alignof(T));
	}

private:
	static constexpr bool in_cache = sizeof(T) <= detail::largest_object && alignof(T) <= detail::largest_align;
};

template <class T, class U> bool operator==(const allocator<T> &, const allocator<U> &) noexcept
{
	return true;
}

template <class T, class U> bool operator!=(const allocator<T> &, const allocator<U> &) noexcept
{
	return false;
}

/*
 * A cache of its own for the blocks of one size. It must outlive what is allocated from it.
 */
class cache_resource : public std::pmr::memory_resource {
public:
	/* Throws std::invalid_argument if there is a cache of that name, or a size that none can have. */
	cache_resource(const char *name, std::size_t size, std::size_t align = alignof(std::max_align_t))
	    : cache_(detail::make_cache(name, size, align)), size_(size), align_(align)
	{
		if (cache_ == nullptr)
			throw std::invalid_argument(name);
	}

	~cache_resource() override { slabyard_cache_destroy(cache_); }
	cache_resource(const cache_resource &) = delete;
	cache_resource &operator=(const cache_resource &) = delete;

	/* For slabyard.h's functions. */
	slabyard_cache *cache() const noexcept { return cache_; }

private:
	void *do_allocate(std::size_t bytes, std::size_t align) override
	{
		if (!is_object(bytes, align))
			return detail::allocate_block(bytes, align);
		if (void *object = slabyard_cache_alloc(cache_))
			return object;
		throw std::bad_alloc();
	}

	void do_deallocate(void *block, std::size_t bytes, std::size_t align) override
	{
		if (is_object(bytes, align))
			slabyard_cache_free(cache_, block);
		else
			detail::free_block(block, align);
	}

	bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

	bool is_object(std::size_t bytes, std::size_t align) const noexcept
	{
		return bytes == size_ && align <= align_;
	}

	slabyard_cache *cache_;
	std::size_t size_, align_;
};

} // namespace slabyard

#endif
