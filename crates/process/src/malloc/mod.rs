//! The C and C++ functions of a drop-in malloc, on any engine, which `slabyard-malloc` and
//! `slabyard-engines` export.
//!
//! `malloc` and `free` themselves are the pop and push sequences ([`entry`]), or `malloc` counts for
//! a profile first (`counting`); [`slow`] serves the
//! calls that these cannot; [`c`] and [`cxx`] define the other functions, and [`throw`] those that
//! throw exceptions. [`info`], [`report`] and [`ending`] count and report; [`filter`], [`loader`]
//! and [`vfork`] interpose C library functions whose effects the library must know. [`pressure`]
//! watches for memory pressure, in the library of all engines. A library exports all these
//! functions through [`malloc_functions`](crate::malloc_functions).

pub mod c;
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
pub mod counting;
pub mod cxx;
pub mod ending;
pub mod entry;
mod exports;
pub mod filter;
pub mod info;
pub mod loader;
pub mod pressure;
pub mod report;
pub mod slow;
pub mod throw;
pub mod vfork;

use crate::library::Library;
use slabyard::cache::classes;
use slabyard::slab::debug::Maker;
use slabyard_abi::stats::CACHE_WORDS;

/// A library that serves malloc.
pub trait Malloc: Library {
    /// What a report has of a cache beside its counters.
    type Words: Words;

    /// True if debugging notes which function allocated, and compares it with the one that frees.
    const NOTES_MAKERS: bool = false;
    /// True if a thread may watch memory pressure.
    const WATCHES_PRESSURE: bool = false;

    /// A request without alignment that serves an aligned one, if there is one.
    #[inline(always)]
    fn request_for_aligned(bytes: usize, align: usize) -> Option<usize> {
        classes::request_for_aligned(bytes, align)
    }

    /// True if an object with this many usable bytes has another size than its owner says, and its
    /// class does not show it.
    #[inline(always)]
    fn is_other_size(_address: usize, _bytes: usize, _have: usize) -> bool {
        false
    }

    /// True if a large block with this many usable bytes has another size than its owner says,
    /// although it has that many bytes.
    #[inline(always)]
    fn is_other_large_size(_bytes: usize, _have: usize) -> bool {
        false
    }
}

/// What a library reports of a cache beside its counters: nothing, or what its slow paths counted.
///
/// # Safety
/// Zeros are a value of it.
pub unsafe trait Words: 'static {
    /// What `count` wrote, if it did.
    fn filled(
        &mut self,
        count: impl FnOnce(&mut [u64; CACHE_WORDS]) -> bool,
    ) -> Option<&[u64; CACHE_WORDS]>;
}

// SAFETY: it has one value.
unsafe impl Words for () {
    #[inline(always)]
    fn filled(
        &mut self,
        _: impl FnOnce(&mut [u64; CACHE_WORDS]) -> bool,
    ) -> Option<&[u64; CACHE_WORDS]> {
        None
    }
}

// SAFETY: numbers.
unsafe impl Words for [u64; CACHE_WORDS] {
    fn filled(
        &mut self,
        count: impl FnOnce(&mut [u64; CACHE_WORDS]) -> bool,
    ) -> Option<&[u64; CACHE_WORDS]> {
        count(self).then_some(self)
    }
}

/// The number of a maker in a function's type: one for all where nobody asks who allocated, so that
/// there is one such function.
#[must_use]
pub const fn number_of<L: Malloc>(maker: Maker) -> u8 {
    if L::NOTES_MAKERS { maker as u8 } else { Maker::Malloc as u8 }
}
