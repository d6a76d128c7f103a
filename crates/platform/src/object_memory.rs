//! The contents of memory for objects: the words that the allocator stores there, and the bytes
//! that a cache with debugging fills and checks.
//!
//! Neighbour: [`crate::memory`] makes such memory usable. The modelled machine has no bytes behind
//! its addresses, so it keeps these contents in tables.

use crate::sync::AtomicU64;

/// Access to memory for objects.
pub trait ObjectMemory {
    /// A word of memory for objects, for several threads at once. It reads as zero where the
    /// memory does.
    ///
    /// # Safety
    /// `address` is in a committed part of a [`Use::Arena`](crate::Use::Arena) of this platform,
    /// or in a mapping of it, aligned to 8, and nobody uses the word but by this function while the
    /// reference lives.
    unsafe fn word(&self, address: usize) -> &AtomicU64;

    /// Writes a value to this many bytes.
    ///
    /// # Safety
    /// They are in a committed part of a [`Use::Arena`](crate::Use::Arena) of this platform, or in
    /// a mapping of it, and no owner uses them.
    unsafe fn fill(&self, address: usize, bytes: usize, value: u8);

    /// The address of the first of this many bytes that has another value, and what it has.
    ///
    /// # Safety
    /// They are in a committed part of a [`Use::Arena`](crate::Use::Arena) of this platform, or in
    /// a mapping of it.
    unsafe fn first_other(&self, address: usize, bytes: usize, value: u8) -> Option<(usize, u8)>;
}
