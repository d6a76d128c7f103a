//! The geometry of a cache: first offset, stride, order, objects per slab; and the division that
//! finds the object of an address.
//!
//! ```text
//! slab, aligned to its size
//! +- - - - - - - -+-----------+- - -+-----------+- - -+ - - - - - -+
//! | words         | object 0  |     | object 1  |     |  padding   |
//! +- - - - - - - -+-----------+- - -+-----------+- - -+ - - - - - -+
//! |<--- first --->|<- object->|
//!                 |<---- size ----->|
//! ```
//!
//! If the slab's descriptors lack room for all words of the free set, the remaining words are at
//! the slab's start, in whole cache lines. This occurs only for 8-byte objects.

use super::word::Word;
use crate::pages::descriptor::DESCRIPTOR_BITS;
use crate::platform::GRANULE;

/// Shape of a cache's slabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of an object that its owner uses.
    pub object: u32,
    /// Bytes from one object to the next.
    pub size: u32,
    /// Where object 0 begins in the slab.
    pub first: u32,
    /// A slab is 2^order granules.
    pub order: u32,
    /// Objects in a slab.
    pub objects: u32,
    /// ceil(2^64 / size): turns a division into a multiplication.
    reciprocal: u64,
}

impl Geometry {
    /// Most objects of a slab: of 16 bytes in 64 KiB, the largest page, or of 8 in 32 KiB.
    pub const MOST_OBJECTS: u32 = 4096;

    /// Slabs of 2^order granules for objects of `size` bytes.
    ///
    /// # Panics
    /// If no object fits, or more than [`Geometry::MOST_OBJECTS`], or a slab is larger
    /// than 256 KiB: the free set has no more bits, and the reciprocal is exact up to there.
    #[must_use]
    pub const fn new(size: u32, order: u32) -> Self {
        Self::with_first(size, size, 0, order)
    }

    /// Slabs of 2^order granules for objects of `object` bytes, `size` bytes from one to the
    /// next, the first of them `first` bytes behind the slab's begin.
    ///
    /// # Panics
    /// As [`Geometry::new`], and if an object is larger than its stride.
    #[must_use]
    pub const fn with_first(object: u32, size: u32, first: u32, order: u32) -> Self {
        let bytes = (GRANULE as u32) << order;
        assert!(1 < size && size <= bytes && bytes <= Self::LARGEST_SLAB && object <= size);
        assert!(first < bytes && size <= bytes - first);
        let objects = (bytes - first) / size;
        assert!(objects <= Self::MOST_OBJECTS && objects <= bits_in_descriptors(order));
        Self::of(object, size, first, order, objects)
    }

    const fn of(object: u32, size: u32, first: u32, order: u32, objects: u32) -> Self {
        let reciprocal = u64::MAX / size as u64 + 1;
        Geometry { object, size, first, order, objects, reciprocal }
    }

    /// The geometry for objects of this many bytes, aligned to `align`, of which the first begins
    /// at the first aligned offset from `first` on, behind the words of the free set in the
    /// slab: the smallest slabs that hold 8 objects or more and waste a sixteenth at most, or as
    /// many objects as a slab may have; else the largest ones. `least_order` is that of a page
    /// of the machine. `None` if these are no objects for slabs.
    #[must_use]
    pub const fn fitting(object: u32, align: u32, first: u32, least_order: u32) -> Option<Self> {
        Self::fitting_within(object, align, first, least_order, Self::LARGEST_ORDER)
    }

    /// As [`Geometry::fitting`], in slabs of this order at most; `None`, too, if none fits there.
    #[must_use]
    pub const fn fitting_within(
        object: u32,
        align: u32,
        first: u32,
        least_order: u32,
        most_order: u32,
    ) -> Option<Self> {
        if least_order > most_order || most_order > Self::LARGEST_ORDER {
            return None;
        }
        let least_align = if align < Self::LEAST_ALIGN { Self::LEAST_ALIGN } else { align };
        if !align.is_power_of_two() || object > Self::LARGEST || align > Self::LARGEST_ALIGN {
            return None;
        }
        let size = if object < Self::SMALLEST { Self::SMALLEST } else { object };
        let size = size.next_multiple_of(least_align);
        if first > Self::LARGEST {
            return None;
        }
        let first = first.next_multiple_of(least_align);
        // Slabs of twice the bytes were no faster, and fewer of them became empty: growth after
        // frees at random peaked at 230 MiB in place of 189 (a899870).
        // As malloc's classes: larger slabs for objects of up to two cache lines.
        let mut order = if size <= 128 { 3 } else { 2 };
        if order < least_order {
            order = least_order;
        }
        if order > most_order {
            order = most_order;
        }
        loop {
            let bytes = (GRANULE as u32) << order;
            let is_largest = order == most_order;
            if bytes > first + size {
                let (first, objects) = Self::placed(bytes, size, first, order);
                let is_good = objects >= 8 && (bytes - objects * size) * 16 <= bytes;
                if is_largest || is_good || objects == Self::MOST_OBJECTS {
                    return Some(Self::of(object, size, first, order, objects));
                }
            }
            if is_largest {
                return None;
            }
            order += 1;
        }
    }

    /// The geometry for objects of this many bytes, `size` bytes from one to the next, the first at
    /// `first`: the smallest slabs that hold 8 objects or more and waste an eighth at most, else
    /// the largest ones. `None` if no object fits these.
    #[must_use]
    pub const fn spaced(object: u32, size: u32, first: u32, least_order: u32) -> Option<Self> {
        let mut order = least_order;
        loop {
            let bytes = (GRANULE as u32) << order;
            let is_largest = bytes == Self::LARGEST_SLAB;
            if bytes >= first + size {
                let objects = least((bytes - first) / size, bits_in_descriptors(order));
                let is_good = objects >= 8 && (bytes - objects * size) * 8 <= bytes;
                if is_largest || is_good {
                    return Some(Self::of(object, size, first, order, objects));
                }
            }
            if is_largest {
                return None;
            }
            order += 1;
        }
    }

    /// The same objects in slabs of a lower order; as it is where none would fit, or words of the
    /// free set are in the slab.
    #[must_use]
    pub const fn lowered(self, order: u32) -> Self {
        let Geometry { object, size, first, objects, .. } = self;
        let bytes = (GRANULE as u32) << order;
        let has_words = objects > bits_in_descriptors(self.order);
        if order >= self.order || has_words || bytes < first + size {
            return self;
        }
        let fitting = (bytes - first) / size;
        if fitting > bits_in_descriptors(order) {
            return self;
        }
        Self::of(object, size, first, order, fitting)
    }

    /// Where object 0 begins behind the words in the slab, and how many objects fit, where
    /// without such words it would begin at `first`.
    /// Such words come and go with the slab. A table beside the region would have pages that serve
    /// sixteen slabs at most, and larger descriptors would cost every slab. The price: a program
    /// that writes in front of its first object changes them, which `verify` finds and no
    /// allocation does.
    const fn placed(bytes: u32, size: u32, first: u32, order: u32) -> (u32, u32) {
        let fitting = least((bytes - first) / size, Self::MOST_OBJECTS);
        let bits = bits_in_descriptors(order);
        if bits < Word::FIRST_IN_SLAB.index_of(0) && fitting > bits {
            // Slabs of so low an order have no words: they hold fewer objects.
            return (first, bits);
        }
        let words = fitting.saturating_sub(bits).div_ceil(Word::OBJECTS);
        let first = first + (words * size_of::<u64>() as u32).next_multiple_of(LINE);
        (first, least((bytes - first) / size, Self::MOST_OBJECTS))
    }

    pub const LARGEST_SLAB: u32 = (GRANULE as u32) << Self::LARGEST_ORDER;
    /// The largest order of a slab.
    pub const LARGEST_ORDER: u32 = 6;
    /// The largest object that [`Geometry::fitting`] takes.
    pub const LARGEST: u32 = 32 << 10;
    /// Of an object: every slab is aligned to this at least.
    pub const LARGEST_ALIGN: u32 = 16 << 10;
    /// The least stride: a word, because a deferred free makes one a link.
    pub const SMALLEST: u32 = 8;
    /// SLUB aligns objects to a word, too.
    const LEAST_ALIGN: u32 = 8;

    /// Slabs of a machine with pages of its own: of 2^order of these.
    pub const fn in_pages(size: u32, order: u32, objects: u32) -> Self {
        Self::of(size, size, 0, order, objects)
    }

    /// Slabs of this many objects that are counted only: no granule holds them.
    pub const fn counted(objects: u32) -> Self {
        Geometry { object: 1, size: 1, first: 0, order: 0, objects, reciprocal: u64::MAX }
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

    /// A power of two of granules.
    #[must_use]
    pub const fn slab_bytes(&self) -> usize {
        GRANULE << self.order
    }

    /// Where the objects of a word of the bitmap begin within a slab, and their bytes.
    #[inline]
    pub(crate) fn span_of(&self, word: Word) -> (usize, usize) {
        let first = word.index_of(0);
        let objects = self.objects.min(first + 64) - first;
        (self.address_of(0, first), objects as usize * self.size as usize)
    }

    /// Bytes in front of the first object and behind the last.
    #[must_use]
    pub const fn padding(&self) -> usize {
        self.slab_bytes() - self.objects as usize * self.size as usize
    }

    /// Number of the object that an offset from object 0 is in, and whether it begins there.
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

    /// Number of the object that an offset within the slab is in; a number of no object for
    /// an offset in front of object 0.
    #[inline]
    #[must_use]
    pub(super) const fn index_at(&self, offset: u32) -> (u32, bool) {
        // Less than 0 becomes almost 2^32, and its quotient more than all objects: a size is
        // below 2^18, and so are all the offsets.
        self.divide(offset.wrapping_sub(self.first))
    }

    /// Address of an object of a slab that begins at `begin`.
    #[inline]
    #[must_use]
    pub const fn address_of(&self, begin: usize, index: u32) -> usize {
        begin + self.first as usize + index as usize * self.size as usize
    }

    /// Number of the object that begins at an offset within the slab, if one does.
    #[inline]
    #[must_use]
    pub const fn object_at(&self, offset: u32) -> Option<u32> {
        let (index, begins) = self.index_at(offset);
        if begins && index < self.objects { Some(index) } else { None }
    }
}

/// Bytes of a cache line.
const LINE: u32 = 64;

/// Bits of the free set in the descriptors of a slab.
const fn bits_in_descriptors(order: u32) -> u32 {
    (DESCRIPTOR_BITS as u32) << order
}

const fn least(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::classes;

    #[test]
    fn every_word_lies_in_a_descriptor_or_in_front_of_the_objects() {
        let all = (0..=16).flat_map(|object| {
            let firsts = [0, 1, 64, 200, 1792, 1793, 4000, 20000, 32768];
            firsts.into_iter().flat_map(move |first| (0..=4).map(move |o| (object, first, o)))
        });
        for (object, first, least_order) in all {
            let g = Geometry::fitting(object, 1, first, least_order).expect("objects for slabs");
            let case = format!("{object} bytes from {first} on: {g:?}");
            assert!(
                g.size == object.max(1).next_multiple_of(8) && g.order >= least_order,
                "{case}"
            );
            let words = g.words().count() as u32;
            assert_eq!(words, g.objects.div_ceil(64), "{case}");
            let in_slab = words.saturating_sub(4 * g.granules());
            // They are all numbered as the free set expects, and are followed by what was asked.
            assert!(in_slab == 0 || 4 * g.granules() >= Word::FIRST_IN_SLAB.0, "{case}");
            assert!(8 * in_slab + first <= g.first, "{case}");
            assert!(g.first - first < 8 * in_slab + 64 + 8, "{case}");
            assert!(in_slab == 0 || g.size == 8, "{case}");
            // There is no room for one more, but that no slab has more.
            let end = g.address_of(0, g.objects);
            assert!(end <= g.slab_bytes(), "{case}");
            let is_full = g.slab_bytes() - end < g.size as usize;
            assert!(is_full || g.objects == Geometry::MOST_OBJECTS, "{case}");
        }
        let g = Geometry::fitting(8, 8, 0, 0).expect("objects for slabs");
        assert_eq!((g.objects, g.first, g.slab_bytes()), (4064, 256, 32 << 10));
    }

    #[test]
    fn words_span_all_objects_and_nothing_else() {
        let with_first = Geometry::fitting(40, 8, 24, 0).expect("objects for slabs");
        let classes = classes::ROWS.map(|(size, order)| Geometry::new(size, order));
        let small = Geometry::fitting(8, 8, 24, 0).expect("objects for slabs");
        for g in classes.into_iter().chain([with_first, small]) {
            let (size, first) = (g.size, g.first as usize);
            let mut end = first;
            for word in g.words() {
                let (begin, bytes) = g.span_of(word);
                assert_eq!(begin, end, "objects of {size} bytes");
                assert!(bytes <= 64 * size as usize, "{bytes} of 64 objects of {size} bytes");
                end = begin + bytes;
            }
            assert_eq!(end - first + g.padding(), g.slab_bytes(), "objects of {size} bytes");
        }
    }
}
