//! Rust's own allocator in this library, which allocates nothing through it: it is required where
//! `alloc` is linked, because the engines for replays are built in one go with us.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;

/// There is no memory.
#[allow(dead_code, reason = "a build of the whole workspace gives the engine the standard library")]
pub(crate) struct Rust;

#[allow(dead_code, reason = "as above")]
impl Rust {
    pub(crate) const fn new() -> Self {
        Rust
    }
}

// SAFETY: what is never allocated is never freed.
unsafe impl GlobalAlloc for Rust {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
