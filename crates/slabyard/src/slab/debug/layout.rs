//! The layout of an object with debugging: where its parts are.
//!
//! ```text
//!              object                     object + bytes
//! +------------+----------------------+---+--------+-------+--------+--------+- - - -+
//! | left zone  | requested  |  right zone  | link   | state | track  | track  | pad   |
//! | 0xbb, 0xcc | 0x6b, 0x5a | 0xbb, 0xcc   | 8 B    | 8 B   | alloc  | free   | 0x5a  |
//! +------------+------------+--------------+--------+-------+--------+--------+- - - -+
//! |<-- left -->|            |<-- 8 bytes or more    |                |
//! |<---------------------------------- stride ----------------------------------->|
//! ```
//!
//! The debug flag Z adds zones, U tracks, P poison. A zone is filled with 0xcc while the object is
//! live, with 0xbb while free. A free object is filled with 0x6b and ends with 0xa5; a new one is
//! filled with 0x5a, which distinguishes reads of unwritten memory from reads after a free. (These
//! are the kernel's bytes, except that it fills new objects with 0x6b too; SLAB used 0x5a there.)
//! Deferred frees are linked by the link field, so that they overwrite none of the owner's bytes.
//!
//! Neighbour: [`super::object`] fills and checks the parts.

use crate::slab::Geometry;
use slabyard_abi::debug::DebugFlags;
use slabyard_abi::region::debugging;

/// Bytes of the link, and of the state.
pub(super) const WORD: u32 = 8;

/// Objects for which a layout is made.
#[derive(Clone, Copy, Debug)]
pub struct LayoutRequest {
    /// Bytes of an object.
    pub object: u32,
    /// Its alignment: a power of two, 8 at least.
    pub align: u32,
    /// Where the first begins in a slab, at least.
    pub first: u32,
    /// Of an object, bytes that may be poisoned while it is free: none if a constructor made it.
    pub body: u32,
}

/// The parts of the objects of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What the cache has.
    pub flags: DebugFlags,
    /// Bytes of an object.
    pub object: u32,
    /// Bytes of it that are poisoned.
    pub(super) body: u32,
    /// Bytes of the left zone.
    pub left: u32,
    /// Where the right zone ends, from the object on, and the link begins.
    pub(super) right: u32,
    /// Bytes from one object to the next.
    pub stride: u32,
}

impl Layout {
    /// The parts for these objects.
    #[must_use]
    pub const fn new(flags: DebugFlags, asked: &LayoutRequest) -> Self {
        let LayoutRequest { object, align, .. } = *asked;
        let has_zones = flags.has(DebugFlags::RED_ZONE);
        // As in the kernel: at least a word.
        let zone = if has_zones { WORD } else { 0 };
        let right = (object + zone).next_multiple_of(WORD);
        let left = if has_zones { align } else { 0 };
        let tracks = if flags.has(DebugFlags::TRACK) { 2 * TRACK_BYTES } else { 0 };
        let stride = (left + right + 2 * WORD + tracks).next_multiple_of(align);
        let body = if flags.has(DebugFlags::POISON) { asked.body } else { 0 };
        Layout { flags, object, body, left, right, stride }
    }

    /// The slabs: the smallest with 8 objects or more and little waste, or with as many as fit.
    /// `least_order` is that of a page; `first` is where the first object begins, at least.
    #[must_use]
    pub const fn geometry(&self, first: u32, least_order: u32) -> Option<Geometry> {
        let left = first.next_multiple_of(self.align()) + self.left;
        Geometry::spaced(self.object, self.stride, left, least_order)
    }

    /// What a stride and a left zone are multiples of.
    const fn align(&self) -> u32 {
        if self.left > 0 { self.left } else { 1 << self.stride.trailing_zeros() }
    }

    /// The word that readers of the process see (`abi::region::debugging`), for slabs of a geometry.
    #[must_use]
    pub const fn shown(&self, geometry: &Geometry) -> u64 {
        let flags = self.flags.bits() as u64 & debugging::FLAGS;
        flags
            | (geometry.first as u64) << debugging::FIRST
            | (self.state() as u64) << debugging::STATE
    }

    pub(super) const fn state(&self) -> usize {
        (self.right + WORD) as usize
    }

    pub(super) const fn tracks(&self) -> usize {
        self.state() + WORD as usize
    }

    /// Where the padding begins, from the object on, and its bytes.
    pub(super) const fn padding(&self) -> (usize, usize) {
        let tracks = if self.flags.has(DebugFlags::TRACK) { 2 * TRACK_BYTES as usize } else { 0 };
        let begin = self.tracks() + tracks;
        (begin, (self.stride - self.left) as usize - begin)
    }
}

/// Words of a track, which readers of the process know: frames, thread and row, time, bytes.
pub(super) const WORDS: usize = debugging::TRACK_WORDS;

/// The debugging words of an object: [`WORDS`] of them for each of its two tracks.
pub(super) const TRACK_BYTES: u32 = (WORDS * size_of::<u64>()) as u32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::classes::ROWS;

    #[test]
    fn the_parts_follow_one_another_up_to_the_stride() {
        for bits in 0..16 {
            let flags = DebugFlags::of(bits);
            for (object, align) in ROWS.map(|(size, _)| (size, 16)).into_iter().chain([
                (1, 8),
                (8, 8),
                (24, 8),
                (100, 64),
                (4096, 4096),
                (32768, 8),
            ]) {
                let it =
                    Layout::new(flags, &LayoutRequest { object, align, first: 0, body: object });
                let (padding, bytes) = it.padding();
                assert!(it.right >= object && it.state() == it.right as usize + 8);
                assert_eq!(it.right > object && it.left > 0, flags.has(DebugFlags::RED_ZONE));
                assert_eq!(it.left as usize + padding + bytes, it.stride as usize, "{it:?}");
                assert!(it.stride.is_multiple_of(align));
                for least_order in [0, 2, 4] {
                    let geometry = it.geometry(0, least_order).expect("it fits");
                    assert!(geometry.order >= least_order && geometry.object == object);
                    let last = geometry.address_of(0, geometry.objects - 1);
                    assert!(last.is_multiple_of(align as usize));
                    assert!(last + (it.stride - it.left) as usize <= geometry.slab_bytes());
                    assert!(geometry.first >= it.left);
                }
            }
        }
    }
}
