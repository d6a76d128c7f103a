//! Floor 10: allocates, resizes and frees blocks by Rust's `Layout`s.
//!
//! Neighbours: [`crate::global`], the allocator of a whole program, and `crate::allocator`, the one
//! for collections, both call [`Blocks`].

use crate::calls::{growth, resize};
use crate::engine::Engine;
use crate::platform::{GRANULE, Platform};
use crate::yard::Yard;
use core::alloc::Layout;
use core::ptr;

/// The alignment that every block has.
const LEAST_ALIGN: usize = 16;

/// Where blocks come from. No layout here is of no bytes.
pub(crate) trait Blocks {
    /// A fresh block: its address and bytes, which are as many as asked for at least.
    fn take(&self, layout: Layout) -> Option<(usize, usize)>;

    /// As [`Blocks::take`], for the bytes of a block that [`Blocks::resize`] could not resize.
    fn take_resized(&self, address: usize, from: Layout, to: Layout) -> Option<(usize, usize)>;

    /// Zeroes a fresh block.
    ///
    /// # Safety
    /// One of at least so many bytes, the caller's alone, in which nothing was written yet.
    unsafe fn zero(&self, address: usize, bytes: usize);

    /// Resizes a block without copying it.
    fn resize(&self, address: usize, from: Layout, to: Layout) -> Option<(usize, usize)>;

    /// Frees a block.
    ///
    /// # Safety
    /// A live block for which this layout may be given, and which nobody uses any more.
    unsafe fn give(&self, address: usize, layout: Layout);
}

impl<P: Platform, E: Engine> Blocks for Yard<P, E> {
    #[inline]
    fn take(&self, layout: Layout) -> Option<(usize, usize)> {
        let address = self.alloc_fast(layout.size(), layout.align().max(LEAST_ALIGN))?;
        Some((address, layout.size()))
    }

    fn take_resized(&self, address: usize, from: Layout, to: Layout) -> Option<(usize, usize)> {
        if to.align() > LEAST_ALIGN || to.size() <= from.size() {
            return self.take(to);
        }
        Some((growth::alloc_resized(self, address, from.size(), to.size())?, to.size()))
    }

    unsafe fn zero(&self, address: usize, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { resize::zero_fresh(self, pointer(address), bytes) };
    }

    fn resize(&self, address: usize, from: Layout, to: Layout) -> Option<(usize, usize)> {
        // Where it moves to, it is aligned to a granule.
        let align = from.align().max(to.align());
        if align > GRANULE || !address.is_multiple_of(align) {
            return None;
        }
        Some((growth::resize_at(self, self.place_of(address), address, to.size())?, to.size()))
    }

    #[inline]
    unsafe fn give(&self, address: usize, _: Layout) {
        if self.free_fast(address).is_err() {
            misuse(address);
        }
    }
}

/// Resizes a block where it is, or copies it to another, which has its address and bytes.
///
/// # Safety
/// A live block for which the first layout may be given, and which only the caller uses.
pub(crate) unsafe fn resize_or_copy(
    blocks: &impl Blocks,
    old: usize,
    from: Layout,
    to: Layout,
) -> Option<(usize, usize)> {
    if let Some(resized) = blocks.resize(old, from, to) {
        return Some(resized);
    }
    let (new, bytes) = blocks.take_resized(old, from, to)?;
    // SAFETY: both are live blocks of at least so many bytes; the caller gives the old one up.
    unsafe {
        pointer(new).copy_from_nonoverlapping(pointer(old), from.size().min(to.size()));
        blocks.give(old, from);
    }
    Some((new, bytes))
}

pub(crate) fn pointer(address: usize) -> *mut u8 {
    ptr::with_exposed_provenance_mut(address)
}

/// Ends the process with a message: a panic must not leave the allocator.
#[cold]
#[inline(never)]
pub(crate) extern "C" fn misuse(address: usize) -> ! {
    panic!("{address:#x} is freed and is no live block of this allocator")
}
