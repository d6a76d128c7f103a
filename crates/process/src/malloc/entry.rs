//! The fast path of `malloc`, `free` and the C++ operators.
//!
//! On x86-64 and aarch64 the exported functions are themselves the restartable sequences (rseq), whose
//! assembly text is in `slabyard::platform::rseq`; elsewhere they are functions of Rust. On x86-64 an
//! uninterrupted `malloc` takes 18 instructions, a `free` 23: 2 of these catch a double free of the
//! most recently freed object, and 2 count down to the next periodic slow path. Neither has a locked
//! instruction, and each has one committing store.
//! `malloc` fits in one cache line of 64 bytes, `free` in two: one more line costs more time than
//! five instructions do. `ci/golden` pins both.
//!
//! Removing the announcement of the sequence, the region test or the double-free test had no
//! measurable effect. Moving a `ret` out of the next cache line did: 0.96 of mimalloc's time
//! instead of 0.985 (59eeeb3). The sequence tests only the low half of the popped address for 0,
//! which saves the last byte of the line. So an object at a multiple of 4 GiB takes the slow path.
//!
//! The assembly text is in macros here; [`crate::malloc_functions`] expands them in each library.
//! Each library has its own push, because some engines' stacks accept only the objects of one slab.
//!
//! Detecting misaligned, foreign and null pointers costs `free` nothing extra: one test checks
//! whether the distance from the region's base has a bit that no object's distance has.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
mod plain;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::own_malloc;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
pub use plain::{alloc_or, free_or, own_malloc};
#[cfg(target_arch = "x86_64")]
pub use x86_64::own_malloc;

/// What a call of the fast path jumps to where it must be slow: what counts for a profile first.
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
pub use crate::malloc::counting as behind;
