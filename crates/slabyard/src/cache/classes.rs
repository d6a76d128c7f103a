//! The size classes of malloc: one row each, and the table by which the fast path finds a class.
//!
//! Up to 256 bytes the classes are 16 bytes apart; above, each class is larger than the one before
//! by at most a sixth. The sizes leave little of a slab of 16 to 256 KiB unused. A request above
//! [`LARGEST`] is served by a page run, because from that size on a run wastes at most a fifth.
//! `docs/geometry.md` shows how much each request wastes; `tests/waste.rs` checks every size.

use super::slots::slot_of;
use core::fmt;

/// Number of classes.
pub const CLASSES: usize = SIZES.len();

/// The largest request that a class serves.
/// With runs from 18720 bytes on, which waste at most a fifth but take the slow path, every size up
/// to 32 KiB at random took 278 ms instead of 141, at 47 MiB instead of 35 (0fb671c).
pub const LARGEST: usize = SIZES[CLASSES - 1].0 as usize;

/// Bytes of objects, order of slabs in granules of 4096 bytes.
pub static ROWS: [(u32, u32); CLASSES] = SIZES;

#[rustfmt::skip]
const SIZES: [(u32, u32); 62] = [
    (16, 3), (32, 3), (48, 3), (64, 3), (80, 3), (96, 3), (112, 3), (128, 3),
    (144, 2), (160, 2), (176, 2), (192, 2), (208, 2), (224, 2), (240, 2), (256, 2),
    (288, 2), (320, 2), (352, 2), (384, 2), (416, 2), (448, 2), (480, 2), (512, 2),
    (576, 2), (640, 2), (704, 2), (768, 2), (832, 2), (896, 2), (960, 2),
    (1024, 2), (1168, 2), (1296, 3), (1424, 3), (1552, 3), (1808, 2),
    (2048, 2), (2336, 3), (2720, 3), (2976, 3), (3264, 3), (3632, 3),
    (4096, 3), (4672, 3), (5456, 3), (5952, 4), (6544, 3), (7280, 4),
    (8192, 3), (9360, 4), (10912, 4), (11904, 5), (13104, 5), (14560, 5),
    (16384, 4), (18720, 5), (21840, 4), (23824, 6), (26208, 5),
    (29120, 6), (32768, 5),
];

/// The table has one entry for this many bytes of request size.
pub(crate) const STEP: usize = 16;

/// Entries of [`OFFSETS`].
pub const ENTRIES: usize = LARGEST / STEP + 1;

/// The name of a class's cache.
#[derive(Clone, Copy, Debug)]
pub struct Name(pub usize);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malloc-{}", ROWS[self.0].0)
    }
}

/// The smallest class for a request, if it is not too large for any.
#[inline]
#[must_use]
pub fn class_for(bytes: usize) -> Option<usize> {
    CLASS_OF.get(bytes.div_ceil(STEP)).map(|class| usize::from(*class))
}

/// The smallest class whose objects are all aligned to `align` (a power of two): slabs
/// are aligned to their size, so a stride that is a multiple does it.
#[inline]
#[must_use]
pub fn class_for_aligned(bytes: usize, align: usize) -> Option<usize> {
    if align <= STEP {
        return class_for(bytes);
    }
    if align > SMALLEST_SLAB || bytes > LARGEST {
        return None;
    }
    // A shift divides by a power of two. A request of 0 bytes is served as one of 1.
    let shift = align.trailing_zeros();
    let multiples = bytes.saturating_sub(1) >> shift;
    Some(ALIGNED[(LARGEST >> shift) + multiples].into())
}

/// A request without alignment that [`class_for_aligned`]'s class serves.
#[inline]
#[must_use]
pub fn request_for_aligned(bytes: usize, align: usize) -> Option<usize> {
    if align <= STEP {
        return Some(bytes);
    }
    class_for_aligned(bytes, align).map(|class| ROWS[class].0 as usize)
}

const SMALLEST_SLAB: usize = 16 << 10;

/// Classes for aligned requests: for each alignment, and each multiple of it up to
/// [`LARGEST`], the smallest class that holds so much and whose stride is a multiple of the
/// alignment. The entries of an alignment begin at the index that is their number, as the
/// levels of a binary heap do: 16 KiB has two entries, 8 KiB four.
static ALIGNED: [u8; LARGEST / STEP] = aligned_table();

const _: () = assert!(LARGEST.is_power_of_two() && CLASSES <= u8::MAX as usize);

const fn aligned_table() -> [u8; LARGEST / STEP] {
    let mut table = [0; LARGEST / STEP];
    let mut align = SMALLEST_SLAB;
    while align > STEP {
        let nr = LARGEST / align;
        // From the largest down: a class overwrites all multiples up to its own size.
        let mut class = CLASSES;
        while class > 0 {
            class -= 1;
            let size = SIZES[class].0 as usize;
            if size.is_multiple_of(align) {
                let mut multiple = 0;
                while multiple < size / align {
                    table[nr + multiple] = class as u8;
                    multiple += 1;
                }
            }
        }
        align /= 2;
    }
    table
}

pub(crate) const fn table() -> [u8; ENTRIES] {
    let mut table = [0; ENTRIES];
    let (mut entry, mut class) = (0, 0);
    while entry < ENTRIES {
        while (SIZES[class].0 as usize) < entry * STEP {
            class += 1;
        }
        table[entry] = class as u8;
        entry += 1;
    }
    table
}

/// From `(bytes + 15) / 16` to the class.
static CLASS_OF: [u8; ENTRIES] = table();

/// From `(bytes + 15) / 16` to the offset of the class's main stack in a row: what the fast
/// path reads, in a static of its own.
pub const OFFSETS: [u16; ENTRIES] = {
    let (classes, mut offsets) = (table(), [0; ENTRIES]);
    let mut entry = 0;
    while entry < ENTRIES {
        offsets[entry] = slot_of(classes[entry] as usize).offset() as u16;
        entry += 1;
    }
    offsets
};
