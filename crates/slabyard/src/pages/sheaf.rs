//! A sheaf in private use: the handle to an array of elements ([`super::elements`]) that is no
//! CPU's stack and in no barn. It can be turned into a stack or a list item, and back.
//!
//! A [`Sheaf`] is in transit: its holder alone owns the array and the objects in it.
//!
//! Neighbours: [`super::sheaf_pool`] makes sheaves; engines publish them as stacks.

use super::elements::size_for;
use crate::sync::{AtomicUsize, Ordering, is_unwinding};

/// Ends a list of sheaves, and stands where there is none.
pub const NO_SHEAF: u32 = u32::MAX;

const _: () = assert!(NO_SHEAF == slabyard_abi::region::sheaf::NONE);

/// An array of elements that no other thread can reach, with `count` objects.
#[must_use]
#[derive(Debug)]
pub struct Sheaf {
    /// Number of its guard's element, from which its elements are found.
    pub(crate) guard: u32,
    /// Objects that it has room for: [`ROOM`](super::elements::ROOM) of its size.
    pub(crate) room: u32,
    pub(crate) count: u32,
}

impl Drop for Sheaf {
    fn drop(&mut self) {
        // A test that fails unwinds, and the modelled machine then unwinds all its threads.
        debug_assert!(is_unwinding(), "a sheaf was dropped with {} objects", self.count);
    }
}

impl Sheaf {
    /// Objects in it.
    pub fn len(&self) -> u32 {
        self.count
    }

    pub(super) fn size(&self) -> usize {
        size_for(self.room)
    }

    /// True without objects.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A sheaf that is being filled.
pub struct Filling<'a> {
    pub(crate) objects: &'a [AtomicUsize],
    pub(crate) sheaf: &'a mut Sheaf,
}

impl Filling<'_> {
    /// Adds the objects of the bits of a mask, the one of the highest bit first: they are
    /// `stride` bytes from each other, and that of bit 0 is at `begin`. The caller has seen
    /// that there is room.
    #[inline]
    pub fn push_each(&mut self, begin: usize, stride: usize, mask: u64) {
        let count = self.sheaf.count as usize;
        let elements = &self.objects[count..count + mask.count_ones() as usize];
        self.sheaf.count += elements.len() as u32;
        // Reversed: to find the highest bit is microcode on some processors.
        let mut rest = mask.reverse_bits();
        let is_run = mask.leading_zeros() + mask.count_ones() + mask.trailing_zeros() == 64;
        if is_run {
            // As in a new slab, or where all objects of a word are free: no need to search
            // for bits.
            let mut object = begin + (63 - rest.trailing_zeros() as usize) * stride;
            for element in elements {
                element.store(object, Ordering::Relaxed);
                object = object.wrapping_sub(stride);
            }
            return;
        }
        for element in elements {
            let bit = 63 - rest.trailing_zeros() as usize;
            element.store(begin + bit * stride, Ordering::Relaxed);
            rest &= rest - 1;
        }
    }
}
