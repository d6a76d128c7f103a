//! One word of a free set: one bit for each of 64 objects.
//!
//! Neighbours: [`super::freeset`] uses the words; [`super::geometry`] turns bits into addresses.

/// A word of a slab's bitmap, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(#[doc(hidden)] pub u32); // For `slabyard-model`.

impl Word {
    /// A bit for each: the width of a word.
    pub const OBJECTS: u32 = u64::BITS;
    /// The word of object 0.
    pub const FIRST: Word = Word(0);
    /// The first word that may be in a slab: the smallest slabs that have such words are 8
    /// granules. Malloc's classes have so high numbers on pages of 64 KiB alone.
    pub(super) const FIRST_IN_SLAB: Word = Word(32);

    /// The word of a number.
    pub(crate) const fn nth(number: usize) -> Word {
        Word(number as u32)
    }

    pub(crate) const fn number(self) -> usize {
        self.0 as usize
    }

    /// Word and bit of an object.
    #[inline]
    #[must_use]
    pub fn of(index: u32) -> (Word, u64) {
        (Word(index / 64), 1 << (index % 64))
    }

    /// Number of the object of a bit of this word.
    #[inline]
    #[must_use]
    pub const fn index_of(self, bit: u32) -> u32 {
        self.0 * 64 + bit
    }
}
