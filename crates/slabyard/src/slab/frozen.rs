//! Slabs that CPUs hold: flags of the slab word ([`super::freeset`]), which one compare-exchange
//! changes together with the count of free objects.
//!
//! * [`FROZEN`]: a CPU holds the slab, as its CPU slab or on its partial list. Frees only add bits
//!   to it; only that CPU takes bits.
//! * [`PARKED`]: the slab is on a CPU partial list with exact counts. The free that makes the slab
//!   empty takes it off the list, by the exchange that clears the flag.
//!
//! The objects' bits are in separate words, so a free, for which the kernel needs one double-word
//! exchange, costs one more atomic instruction here.
//!
//! Neighbours: the engine of CPU slabs ([`crate::engine::cpu_slabs`]) calls these functions; each
//! returns how many of its compare-exchanges failed because another thread had changed the word.
//! Invariants: as in the free set, bits are set before they are counted, and cleared after they are
//! subtracted. A thread takes bits only from a slab that its CPU froze or that is unlisted, or
//! under the list's lock.

use super::freeset::{MOST_WORDS, VERSION_SHIFT, Version, parts};
use crate::pages::PageHeap;
use crate::platform::Platform;
use crate::slab::freeset;
use crate::slab::word::Word;
use crate::sync::Ordering;

pub use slabyard_abi::region::descriptor::word::{FROZEN, PARKED};

/// A slab's word before and after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Exchanged {
    /// Before.
    pub old: u64,
    /// After.
    pub new: u64,
    /// Compare-exchanges that failed.
    pub failed: u32,
}

impl Exchanged {
    /// The slab, and its free objects before.
    #[must_use]
    pub fn before(&self) -> (Version, u32) {
        parts(self.old)
    }

    /// The slab, and its free objects after.
    #[must_use]
    pub fn after(&self) -> (Version, u32) {
        parts(self.new)
    }

    /// Free objects after.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.after().1
    }
}

/// Changes a slab's word.
pub fn exchange_word<P: Platform>(
    heap: &PageHeap<P>,
    slab: u32,
    next: impl Fn(u64) -> u64,
) -> Exchanged {
    let word = &heap.region.descriptor(slab).word;
    // Relaxed, here and where the exchange fails: nothing but the word goes by these values.
    let (mut old, mut failed) = (word.load(Ordering::Relaxed), 0);
    loop {
        heap.platform.step();
        let new = next(old);
        // AcqRel: as the addition and the subtraction of the free set, whose partners these are.
        match word.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return Exchanged { old, new, failed },
            Err(seen) => old = seen,
        }
        failed += 1;
    }
}

/// Sets flags of a slab and clears others.
pub fn set_flags<P: Platform>(heap: &PageHeap<P>, slab: u32, set: u64, clear: u64) -> Exchanged {
    exchange_word(heap, slab, |word| word & !clear | set)
}

/// Marks a slab as [`PARKED`], by a version of its own: what a list still has of the slab from
/// earlier, when a free took it off, is not valid again.
pub fn park_slab<P: Platform>(heap: &PageHeap<P>, slab: u32) -> Exchanged {
    let version = u64::from(freeset::next_version(heap)) << VERSION_SHIFT;
    exchange_word(heap, slab, |word| word & u64::from(u32::MAX) | PARKED | version)
}

/// Frees the objects of one word; `next` gets the slab's word and that with them counted.
/// Returns the exchange and the objects that were free already, which are not counted.
pub fn put_with<P: Platform>(
    heap: &PageHeap<P>,
    slab: u32,
    word: Word,
    mask: u64,
    next: impl Fn(u64, u64) -> u64,
) -> (Exchanged, u64) {
    heap.platform.slab_operation();
    // Release: as in `freeset::put`.
    let old = freeset::bits(heap, slab, word).fetch_or(mask, Ordering::Release);
    let added = u64::from((mask & !old).count_ones());
    (exchange_word(heap, slab, |word| next(word, word + added)), old & mask)
}

/// Returns the objects whose bits `masks` have to a slab and thaws it. The words' objects that
/// were free already are left in `masks`, and not counted.
pub fn thaw_with<P: Platform>(
    heap: &PageHeap<P>,
    slab: u32,
    masks: &mut [u64; MOST_WORDS],
) -> Exchanged {
    heap.platform.slab_operation();
    let mut added = 0;
    for (nth, mask) in masks.iter_mut().enumerate().filter(|(_, mask)| **mask != 0) {
        // Release: as in `freeset::put`.
        let old = freeset::bits(heap, slab, Word(nth as u32)).fetch_or(*mask, Ordering::Release);
        added += u64::from((*mask & !old).count_ones());
        *mask &= old;
    }
    exchange_word(heap, slab, |word| (word + added) & !(FROZEN | PARKED))
}

/// Freezes a slab and takes up to `most` of its free objects; one without any thaws. `f` gets
/// each word that has some and their bits, the last word first.
pub fn take_frozen<P: Platform>(
    heap: &PageHeap<P>,
    slab: u32,
    most: u32,
    mut f: impl FnMut(Word, u64),
) -> Exchanged {
    heap.platform.slab_operation();
    let taken = |word| parts(word).1.min(most);
    let exchanged = exchange_word(heap, slab, |word| match taken(word) {
        0 => word & !(FROZEN | PARKED),
        taken => (word - u64::from(taken)) & !PARKED | FROZEN,
    });
    let may = taken(exchanged.old);
    let mut masks = [0; MOST_WORDS];
    let (words, _) = freeset::choose(heap, slab, may, most, false, &mut masks);
    for word in (0..words).rev() {
        let mask = masks[word as usize];
        if mask != 0 {
            // Acquire: as in `freeset::take`.
            freeset::bits(heap, slab, Word(word)).fetch_and(!mask, Ordering::Acquire);
            f(Word(word), mask);
        }
    }
    exchanged
}
