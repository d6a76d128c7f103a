/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a test module of the kernel's lib folder needs to be a program, beside the headers of the
 * kernel's tools: its init function is run by main(), and a warning is a failure. Included in front
 * of the module; the headers that the tools do not have are empty files that name this one.
 */
#ifndef KERNEL_TESTS_MODULE_H
#define KERNEL_TESTS_MODULE_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <linux/kernel.h>
#include <linux/bug.h>
#include <linux/types.h>

static int warnings;

#undef WARN_ON_ONCE
#define WARN_ON_ONCE(condition)                                             \
	({                                                                  \
		int is_true = !!(condition);                                \
		if (is_true && warnings++ == 0)                             \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,  \
				#condition);                                \
		is_true;                                                    \
	})

#define printk(...) printf(__VA_ARGS__)
#undef KERN_ALERT
#define KERN_ALERT ""
#define KERN_CONT ""

#define module_param(name, type, mode)
#define MODULE_PARM_DESC(name, text)
#define MODULE_LICENSE(text)
#define MODULE_AUTHOR(text)
#define MODULE_DESCRIPTION(text)
#undef module_init
#undef module_exit
/* A test's init function fails on purpose, so that the module goes again. */
#define module_init(init)                                                   \
	int main(void)                                                      \
	{                                                                   \
		int result = init();                                        \
		return warnings != 0 || (result != 0 && result != -EAGAIN); \
	}
#define module_exit(end) void *const kept_##end = (void *)end;
#define __init
#define __exit

typedef uint64_t cycles_t;
static inline cycles_t get_cycles(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (cycles_t)now.tv_sec * 1000000000u + (cycles_t)now.tv_nsec;
}

#define div_u64(a, b) ((a) / (b))

/* Any generator will do (splitmix64, public domain by S. Vigna). */
struct rnd_state {
	uint64_t word;
};
static inline void prandom_seed_state(struct rnd_state *state, uint64_t seed)
{
	state->word = seed;
}
static inline uint32_t prandom_u32_state(struct rnd_state *state)
{
	uint64_t z = state->word += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)(z ^ z >> 31);
}

#endif
