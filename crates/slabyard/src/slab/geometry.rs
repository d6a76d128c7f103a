//! The geometry of a cache: stride, order, objects in a slab; and the division that finds
//! the object of an address.

use super::freeset::Word;
use crate::platform::GRANULE;

/// Shape of a cache's slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes from one object to the next.
    pub size: u32,
    /// A slab is 2^order granules.
    pub order: u32,
    /// Objects in a slab.
    pub objects: u32,
    /// ceil(2^64 / size): turns a division into a multiplication.
    reciprocal: u64,
}

impl Geometry {
    /// Most objects of a slab: of 16 bytes in 64 KiB, the largest page.
    pub const MOST_OBJECTS: u32 = 4096;

    /// Slabs of 2^order granules for objects of `size` bytes.
    ///
    /// # Panics
    /// If no object fits, or more than [`Geometry::MOST_OBJECTS`], or a slab is larger
    /// than 256 KiB: the free set has no more bits, and the reciprocal is exact up to there.
    #[must_use]
    pub const fn new(size: u32, order: u32) -> Self {
        let bytes = (GRANULE as u32) << order;
        assert!(1 < size && size <= bytes && bytes <= 256 << 10);
        assert!(bytes / size <= Self::MOST_OBJECTS);
        Geometry { size, order, objects: bytes / size, reciprocal: u64::MAX / size as u64 + 1 }
    }

    /// Granules of a slab.
    #[inline]
    #[must_use]
    pub const fn granules(&self) -> u32 {
        1 << self.order
    }

    /// Words of a slab's bitmap.
    pub(super) fn words(&self) -> impl Iterator<Item = Word> {
        (0..self.objects.div_ceil(64)).map(Word)
    }

    /// Bytes of a slab.
    #[must_use]
    pub const fn slab_bytes(&self) -> usize {
        GRANULE << self.order
    }

    /// Where the objects of a word of the bitmap begin within a slab, and their bytes.
    #[inline]
    pub(crate) fn span_of(&self, word: Word) -> (usize, usize) {
        let first = word.index_of(0);
        let objects = self.objects.min(first + 64) - first;
        (self.address_of(0, first), self.address_of(0, objects))
    }

    /// Bytes behind the last object.
    #[must_use]
    pub const fn padding(&self) -> usize {
        self.slab_bytes() - self.objects as usize * self.size as usize
    }

    /// Number of the object that an offset within the slab lies in, and whether it begins
    /// there.
    ///
    /// The upper half of the product is the quotient, and the lower one is below the
    /// reciprocal where nothing remains. Exact: an offset is below 2^18, and a size at most
    /// that (Lemire, Kaser and Kurz, "Faster remainder by direct computation", SPE 2019).
    #[inline]
    #[must_use]
    pub const fn divide(&self, offset: u32) -> (u32, bool) {
        let product = offset as u128 * self.reciprocal as u128;
        ((product >> 64) as u32, (product as u64) < self.reciprocal)
    }

    /// Address of an object of a slab that begins at `begin`.
    #[inline]
    #[must_use]
    pub const fn address_of(&self, begin: usize, index: u32) -> usize {
        begin + index as usize * self.size as usize
    }

    /// Number of the object that begins at an offset within the slab, if one does.
    #[inline]
    #[must_use]
    pub const fn object_at(&self, offset: u32) -> Option<u32> {
        let (index, begins) = self.divide(offset);
        if begins && index < self.objects { Some(index) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::classes;

    #[test]
    fn division_is_exact_for_every_offset() {
        let classes = classes::ROWS.map(|(size, _)| size);
        for size in (16..=2048).step_by(16).chain(classes) {
            for order in [2, 3, 4, 5, 6]
                .into_iter()
                .filter(|order| (1..=Geometry::MOST_OBJECTS).contains(&((4096 << order) / size)))
            {
                let g = Geometry::new(size, order);
                for offset in 0..g.slab_bytes() as u32 {
                    let exact = (offset / size, offset % size == 0);
                    assert_eq!(g.divide(offset), exact, "{offset} / {size}");
                }
            }
        }
    }

    #[test]
    fn words_span_all_objects_and_nothing_else() {
        for (size, order) in classes::ROWS {
            let g = Geometry::new(size, order);
            let mut end = 0;
            for word in g.words() {
                let (begin, bytes) = g.span_of(word);
                assert_eq!(begin, end, "objects of {size} bytes");
                assert!(bytes <= 64 * size as usize, "{bytes} of 64 objects of {size} bytes");
                end = begin + bytes;
            }
            assert_eq!(end + g.padding(), g.slab_bytes(), "objects of {size} bytes");
        }
    }
}
