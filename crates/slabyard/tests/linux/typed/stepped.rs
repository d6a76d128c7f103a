//! A debugger's single step gets through the inlined sequences, each of which it aborts, and finds
//! every register as the compiler left it: the kernel continues at code that the compiler does not
//! know of.

use crate::typed::in_modes::in_each_mode;
use slabyard::{CacheBox, ObjectCache, ProcessYard};
use std::ptr::null_mut;

const NR: usize = 6;
const ROUNDS: u64 = 2;
/// Steps in which it is through, by far.
const MOST_STEPS: u32 = 3_000_000;

type Cache = ObjectCache<[u64; 3]>;

/// Allocates and frees in one function, with more values at hand than there are registers.
#[inline(never)]
fn churn(cache: &Cache, [a, b, c, d, e, f]: [u64; NR]) -> u64 {
    let mut sum = 0u64;
    for round in 0..ROUNDS {
        let first = cache.alloc([a + round, b, c]);
        let second = cache.alloc([d, e + round, f]);
        sum = sum.wrapping_add((first[0] * a) ^ second[1]);
        drop(first);
        sum ^= (b * c) + second[0] * d;
        drop(second);
        let many: [CacheBox<[u64; 3]>; NR] =
            [a, b, c, d, e, f].map(|n| cache.alloc([n, round, sum]));
        sum = many.into_iter().fold(sum, |sum, object| mixed(sum, object[0] * e + object[1] * f));
    }
    sum
}

/// The same without a cache.
fn expected([a, b, c, d, e, f]: [u64; NR]) -> u64 {
    let mut sum = 0u64;
    for round in 0..ROUNDS {
        sum = sum.wrapping_add(((a + round) * a) ^ (e + round));
        sum ^= (b * c) + d * d;
        sum = [a, b, c, d, e, f].into_iter().fold(sum, |sum, n| mixed(sum, n * e + round * f));
    }
    sum
}

/// More rounds than one go beyond what a number holds.
#[inline(always)]
fn mixed(sum: u64, more: u64) -> u64 {
    sum.wrapping_mul(31).wrapping_add(more)
}

#[test]
fn a_debuggers_single_step_gets_through() {
    in_each_mode("stepped::a_debuggers_single_step_gets_through", |yard: &'static ProcessYard| {
        let values = std::array::from_fn(|n| 3 + n as u64 * 7);
        let cache = Cache::new("stepped", yard).expect("a cache");
        assert_eq!(churn(&cache, values), expected(values));
        // SAFETY: the child calls what a child may, and `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0, "a child");
        if child == 0 {
            // SAFETY: as above.
            unsafe {
                if libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<u8>(), null_mut::<u8>()) != 0 {
                    libc::_exit(0);
                }
                libc::raise(libc::SIGTRAP);
                libc::_exit(i32::from(churn(&cache, values) != expected(values)));
            }
        }
        let (mut status, mut steps) = (0, 0);
        loop {
            // SAFETY: a child of ours, which is stopped where it is told to go on.
            unsafe {
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                if !libc::WIFSTOPPED(status) {
                    break;
                }
                steps += 1;
                let signal = libc::WSTOPSIG(status);
                if signal != libc::SIGTRAP || steps > MOST_STEPS {
                    libc::kill(child, libc::SIGKILL);
                    libc::waitpid(child, &mut status, 0);
                    panic!("signal {signal} after {steps} steps");
                }
                libc::ptrace(libc::PTRACE_SINGLESTEP, child, null_mut::<u8>(), null_mut::<u8>());
            }
        }
        println!("{steps} steps");
        assert_eq!(status, 0, "what it computes, after {steps} steps");
    });
}
