//! The free set of a slab: a bitmap in its descriptors, and one word.
//!
//! ```text
//! word (in the first descriptor)          bits (256 in each descriptor of the slab)
//! 63        32 31    16 15    0
//! +-----------+--------+-------+    bit i set: object i is free
//! |  version  | flags  | free  |
//! +-----------+--------+-------+
//! ```
//!
//! A slab with more objects than its descriptors have bits (8-byte objects in 32 KiB) has the
//! further words at its start, before its objects:
//!
//! ```text
//! descriptors: words 0 to 31          slab: words 32 to 63   object 0   object 1 ...
//! ```
//!
//! * [`put`] sets bits first (a bit that is set already is a double
//!   free) and then adds to `free`: at each moment, bits set >= free.
//! * [`take`], under the list lock or on a slab that no other thread has seen, finds as many set
//!   bits as it may take, subtracts their number from `free`, and then clears them. Counted bits
//!   are set, because `put` sets them first; they stay set, because no other thread takes bits.
//! * `version` differs between slabs, and is 0 without a slab. A thread that saw `free` rise from 0
//!   or reach the maximum, and then takes the list lock, sees by `version` whether the slab is the
//!   same. A slab gets a new version when it is put on a CPU partial list with exact counts
//!   ([`park_slab`](crate::slab::frozen::park_slab)).
//!
//! Equation: free + parked + in transit + live = objects, while no `put` is under way.
//!
//! The flags mark slabs that CPUs hold ([`super::frozen`]).
//!
//! A free list of 16-bit indices, in tables beside the descriptors, was built behind the same
//! interface and rejected. It took 1.25 to 2.0 times the time in each of nine loads, at equal or
//! higher peaks, and two concurrent frees of one object corrupted it (`docs/decisions.md`, "Free
//! sets").
//!
//! Neighbours: [`super::Geometry`] gives the number of objects; the engine's partial list decides
//! who may take bits.

use super::Geometry;
use crate::pages::descriptor::DESCRIPTOR_BITS;
use crate::pages::{GranuleKind, PageHeap, Region};
use crate::platform::Platform;
use crate::slab::word::Word;
use crate::sync::{AtomicU64, Ordering};

/// Tells a slab from earlier ones that began at the same granule, and its stays on CPU partial
/// lists that count exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u32);

impl Version {
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    /// The version of slabs that nobody may take for another one.
    pub const ONLY: Version = Version(1);
}

/// What a `put` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Put {
    /// The slab that was put into.
    pub version: Version,
    /// Free objects before.
    pub before: u32,
    /// Objects added.
    pub added: u32,
    /// Bits of the word whose objects were free already.
    pub twice: u64,
}

/// Bits of a slab's word below its version.
pub(super) const VERSION_SHIFT: u32 = 32;
pub(super) const FREE_MASK: u64 = u16::MAX as u64;

const _: () = assert!(Geometry::MOST_OBJECTS < u16::MAX as u32);

pub(super) fn parts(word: u64) -> (Version, u32) {
    (Version((word >> VERSION_SHIFT) as u32), (word & FREE_MASK) as u32)
}

/// Words of the largest bitmap.
pub(crate) const MOST_WORDS: usize = Geometry::MOST_OBJECTS as usize / 64;

/// Words of the bitmap in one descriptor.
const WORDS: u32 = DESCRIPTOR_BITS as u32 / 64;

#[inline]
pub(super) fn bits<P: Platform>(heap: &PageHeap<P>, slab: u32, word: Word) -> &AtomicU64 {
    if word.0 >= Word::FIRST_IN_SLAB.0 {
        return any_bits(heap, slab, word);
    }
    bits_in_descriptor(&heap.region, slab, word)
}

#[inline]
fn bits_in_descriptor(region: &Region, slab: u32, word: Word) -> &AtomicU64 {
    &region.descriptor(slab + word.0 / WORDS).bits[(word.0 % WORDS) as usize]
}

/// As `bits`, with less text. The descriptor has the order from the slab's begin on.
#[cold]
#[inline(never)]
fn any_bits<P: Platform>(heap: &PageHeap<P>, slab: u32, word: Word) -> &AtomicU64 {
    match word.0.checked_sub(WORDS << heap.region.descriptor(slab).order()) {
        None => bits_in_descriptor(&heap.region, slab, word),
        Some(nth) => {
            let at = nth as usize * size_of::<AtomicU64>();
            // SAFETY: the word lies in a slab, which is committed, in front of its objects
            // (`Geometry`), and the free set alone uses it.
            unsafe { heap.platform.word(heap.region.address(slab) + at) }
        }
    }
}

/// A number that none of the last 2^32 had; never 0.
pub(super) fn next_version<P: Platform>(heap: &PageHeap<P>) -> u32 {
    match heap.versions.fetch_add(1, Ordering::Relaxed).wrapping_add(1) {
        0 => next_version(heap),
        version => version,
    }
}

/// Begins a slab in a new run, with all objects free. Writes the page map last.
pub fn begin_slab<P: Platform>(heap: &PageHeap<P>, slab: u32, geometry: &Geometry, slot: u16) {
    let descriptor = heap.region.descriptor(slab);
    // Where the bits lie follows from the order.
    descriptor.set(GranuleKind::None, geometry.order, slot);
    let mut left = geometry.objects;
    for word in geometry.words() {
        let n = left.min(64);
        bits(heap, slab, word).store(u64::MAX >> (64 - n), Ordering::Relaxed);
        left -= n;
    }
    let word = u64::from(next_version(heap)) << VERSION_SHIFT | u64::from(geometry.objects);
    descriptor.word.store(word, Ordering::Release);
    descriptor.time.store(0, Ordering::Relaxed);
    descriptor.set(GranuleKind::Slab, geometry.order, slot);
    let offset = crate::platform::Slot(slot).offset() as u16;
    heap.region.set_map(slab, geometry.granules(), offset);
}

/// Ends a slab whose objects are all free and which is on no list. Its descriptor is then
/// of kind [`GranuleKind::None`].
pub fn end_slab(region: &Region, slab: u32, geometry: &Geometry) {
    let descriptor = region.descriptor(slab);
    region.set_map(slab, geometry.granules(), 0);
    debug_assert_eq!(parts(descriptor.word.load(Ordering::Relaxed)).1, geometry.objects);
    // Relaxed: it says that there is no slab, and nothing else.
    descriptor.word.store(0, Ordering::Relaxed);
    descriptor.set(GranuleKind::None, 0, 0);
}

/// Writes the page map for a slab that a thread which is gone had just begun, or was about to end.
pub fn write_map_anew(region: &Region, slab: u32, geometry: &Geometry) {
    let slot = region.descriptor(slab).slot();
    let offset = crate::platform::Slot(slot).offset() as u16;
    let all = slab..slab + geometry.granules();
    if all.clone().any(|granule| region.map_value(granule) != offset) {
        region.set_map(slab, geometry.granules(), offset);
    }
}

/// Version of a slab and its free objects.
#[inline]
pub fn free_of(region: &Region, slab: u32) -> (Version, u32) {
    parts(region.descriptor(slab).word.load(Ordering::Acquire))
}

/// Puts the objects of one bitmap word back whose bits are set in `mask`: one
/// operation for the word and one for the slab.
pub fn put<P: Platform>(heap: &PageHeap<P>, slab: u32, word: Word, mask: u64) -> Put {
    heap.platform.slab_operation();
    // Release: by a value of the word that counts another object, a thread may take these before the
    // addition below counts them. Pairs with the Acquire of who clears the bits.
    let old = bits(heap, slab, word).fetch_or(mask, Ordering::Release);
    let added = (mask & !old).count_ones();
    // Release: a thread that takes a counted object sees its bit. Pairs with the Acquire in `take`.
    let word = &heap.region.descriptor(slab).word;
    let (version, before) = parts(word.fetch_add(u64::from(added), Ordering::AcqRel));
    Put { version, before, added, twice: old & mask }
}

/// Takes up to `most` free objects, those with the lowest numbers, and calls `f` with
/// each word that has some and their bits, the last word first: a caller that pushes them
/// to a stack from the highest to the lowest pops them in the order of their addresses,
/// in which the hardware prefetches. The caller holds the list lock, or no other thread
/// has seen the slab. Returns how many it took and how many are left.
///
/// With `whole`, it takes all of a word's objects or none: then it may take fewer than
/// `most` although some are left. The objects of a word begin and end with a cache line,
/// so that CPUs which take from one slab at the same time share none of its lines.
#[inline(always)]
pub fn take<P: Platform>(
    heap: &PageHeap<P>,
    slab: u32,
    most: u32,
    whole: bool,
    mut f: impl FnMut(Word, u64),
) -> (u32, u32) {
    heap.platform.slab_operation();
    let head = heap.region.descriptor(slab);
    // Acquire pairs with the Release in `put`.
    let (_, free) = parts(head.word.load(Ordering::Acquire));
    let may = free.min(most);
    let mut masks = [0; MOST_WORDS];
    let (words, taken) = choose(heap, slab, may, most, whole, &mut masks);
    // Relaxed: the next `take` that acquires this value has the bits of all `put`s before it, because
    // an atomic change of a released value carries on what was released.
    let (_, before) = parts(head.word.fetch_sub(taken.into(), Ordering::Relaxed));
    for word in (0..words).rev() {
        let mask = masks[word as usize];
        if mask != 0 {
            // Acquire: the objects' last owners are done with them. Pairs with the Release in `put`.
            bits(heap, slab, Word(word)).fetch_and(!mask, Ordering::Acquire);
            f(Word(word), mask);
        }
    }
    (taken, before - taken)
}

/// The bits that `take` takes, of at most `may` objects: how many words, and how many objects.
pub(super) fn choose<P: Platform>(
    heap: &PageHeap<P>,
    slab: u32,
    may: u32,
    most: u32,
    whole: bool,
    masks: &mut [u64; MOST_WORDS],
) -> (u32, u32) {
    let (mut words, mut taken) = (0, 0);
    while taken < may {
        let bits = bits(heap, slab, Word(words)).load(Ordering::Relaxed);
        if whole && bits.count_ones() > most - taken {
            break;
        }
        // `put` may have set some of the bits and not counted them yet.
        let mask = lowest(bits, may - taken);
        masks[words as usize] = mask;
        taken += mask.count_ones();
        words += 1;
    }
    (words, taken)
}

/// Counts a slab's free objects anew by its bitmap, which is the truth where a thread that
/// changed both is gone; returns how many. No other thread changes them. The flags stay
/// (`flags`), or are cleared.
pub fn recount<P: Platform>(
    heap: &PageHeap<P>,
    slab: u32,
    geometry: &Geometry,
    flags: bool,
) -> u32 {
    let free = bits_of(heap, slab, geometry);
    let word = &heap.region.descriptor(slab).word;
    let old = word.load(Ordering::Relaxed);
    let kept = if flags { !FREE_MASK } else { !u64::from(u32::MAX) };
    let new = old & kept | u64::from(free);
    if new != old {
        word.store(new, Ordering::Relaxed);
    }
    free
}

/// Free objects by the bitmap.
pub fn bits_of<P: Platform>(heap: &PageHeap<P>, slab: u32, geometry: &Geometry) -> u32 {
    let free = |word| any_bits(heap, slab, word).load(Ordering::Relaxed).count_ones();
    geometry.words().map(free).sum()
}

/// Sets or clears an object's bit without counting it, as a mark (`verify` does, and
/// clears it again); returns whether it was set.
pub fn mark<P: Platform>(heap: &PageHeap<P>, slab: u32, index: u32, free: bool) -> bool {
    let (word, bit) = Word::of(index);
    let word = any_bits(heap, slab, word);
    let old = if free {
        word.fetch_or(bit, Ordering::Relaxed)
    } else {
        word.fetch_and(!bit, Ordering::Relaxed)
    };
    old & bit != 0
}

/// The bits of a word: of objects that are free, or that a `put` is about to count.
pub fn free_bits<P: Platform>(heap: &PageHeap<P>, slab: u32, word: Word) -> u64 {
    any_bits(heap, slab, word).load(Ordering::Relaxed)
}

/// True if an object's bit is set.
pub fn is_free<P: Platform>(heap: &PageHeap<P>, slab: u32, index: u32) -> bool {
    let (word, bit) = Word::of(index);
    any_bits(heap, slab, word).load(Ordering::Relaxed) & bit != 0
}

/// The lowest bits of a word, at most this many.
#[inline]
fn lowest(bits: u64, most: u32) -> u64 {
    if bits.count_ones() <= most {
        return bits;
    }
    let above = (0..most).fold(bits, |rest, _| rest & (rest - 1));
    bits ^ above
}
