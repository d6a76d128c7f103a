//! A bitmap of live objects: a bit for every eight bytes of a memory, and whether a call is under
//! way.
//!
//! ```text
//! memory   | live map | entries | ... | page | page | ...
//! a bit      1: a live block, or object, begins in these eight bytes
//!            (SLOB: a live block has these eight bytes)
//! ```
//!
//! A yard whose users may be killed during a call (`Robust`) has a live map. A repair can rebuild
//! the yard's lists, chains, sheaves and counts from this map and the page-table entries of blocks
//! in use ([`crate::repair`]). So a call may be cut short anywhere, and no engine depends on the
//! order of its stores.
//!
//! Invariants: a block's bit is set after all stores that set up the block, and cleared before
//! those that dismantle it, with a compiler fence between. A thread that is killed has executed all
//! instructions before some point and none after it. The thread that takes the lock next sees these
//! stores, because the kernel exchanges the lock's word in between.

use core::cell::Cell;
use core::ops::Range;
use slabyard_platform::sync::{Ordering, compiler_fence};

/// Bytes for which there is a bit.
pub const GRANULE: usize = 8;
const BITS: usize = u32::BITS as usize;

/// The bits, and the state of the last call.
#[derive(Debug)]
pub struct LiveMap {
    words: Cell<*const Cell<u32>>,
    nr: Cell<usize>,
    /// A call has begun and not ended.
    in_call: Cell<bool>,
    /// Calls that did not end.
    cut: Cell<u32>,
}

impl LiveMap {
    /// Of no memory.
    #[allow(clippy::new_without_default, reason = "it is for a constant")]
    pub const fn new() -> Self {
        LiveMap {
            words: Cell::new(core::ptr::null()),
            nr: Cell::new(0),
            in_call: Cell::new(false),
            cut: Cell::new(0),
        }
    }

    /// Bytes of the map of a memory of `bytes` bytes, in pages of `page`: a part of a page in front
    /// of the memory has bits as well.
    pub const fn bytes_for(bytes: usize, page: usize) -> usize {
        ((bytes + page) / GRANULE).div_ceil(BITS) * size_of::<u32>()
    }

    /// Takes over this many bytes: nothing is live.
    ///
    /// # Safety
    /// The bytes are readable and writable as long as the map is used, nobody else uses them, and
    /// they are aligned to 4.
    pub unsafe fn init(&self, at: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { at.write_bytes(0, bytes) };
        self.words.set(at.cast());
        self.nr.set(bytes / size_of::<u32>());
    }

    /// Begins a call, under the lock: true if the last one did not end.
    #[inline]
    pub fn begin_call(&self) -> bool {
        let is_cut = self.in_call.replace(true);
        compiler_fence(Ordering::SeqCst);
        is_cut
    }

    /// A repair after this finds no call that was cut off. The fence keeps the call's writes before
    /// it.
    #[inline]
    pub fn end_call(&self) {
        compiler_fence(Ordering::SeqCst);
        self.in_call.set(false);
    }

    /// A repair ended.
    pub fn count_cut(&self) {
        self.cut.set(self.cut.get().wrapping_add(1));
    }

    /// Calls that were cut short so far.
    pub fn cut_calls(&self) -> u32 {
        self.cut.get()
    }

    fn words(&self) -> &[Cell<u32>] {
        match self.nr.get() {
            0 => &[],
            // SAFETY: `init` wrote so many, which are used as cells alone.
            nr => unsafe { core::slice::from_raw_parts(self.words.get(), nr) },
        }
    }

    /// True if the bit is set.
    #[inline]
    pub fn is_live(&self, granule: usize) -> bool {
        self.words()[granule / BITS].get() >> (granule % BITS) & 1 != 0
    }

    /// Sets bits: behind all that was done for the block.
    #[inline]
    pub fn set(&self, granules: Range<usize>) {
        compiler_fence(Ordering::SeqCst);
        self.each_word(granules, |word, mask| word.set(word.get() | mask));
    }

    /// Clears bits: in front of all that is done to the block.
    #[inline]
    pub fn clear(&self, granules: Range<usize>) {
        self.each_word(granules, |word, mask| word.set(word.get() & !mask));
        compiler_fence(Ordering::SeqCst);
    }

    /// How many are set.
    pub fn count(&self, granules: Range<usize>) -> u32 {
        let mut count = 0;
        self.each_word(granules, |word, mask| count += (word.get() & mask).count_ones());
        count
    }

    #[inline]
    fn each_word(&self, granules: Range<usize>, mut f: impl FnMut(&Cell<u32>, u32)) {
        let Range { mut start, end } = granules;
        while start < end {
            let (bit, behind) = (start % BITS, end - start);
            let bits = behind.min(BITS - bit);
            f(&self.words()[start / BITS], u32::MAX >> (BITS - bits) << bit);
            start += bits;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_bits_are_exact() {
        let bytes = LiveMap::bytes_for(4096, 512);
        let memory = std::vec![0xffu8; bytes].leak();
        let map = LiveMap::new();
        // SAFETY: nobody else has it; a vector of so many bytes is aligned to a word.
        unsafe { map.init(memory.as_mut_ptr(), bytes) };
        let all = 0..(4096 + 512) / GRANULE;
        for start in [0, 1, 31, 32, 33, 95] {
            for len in [0, 1, 2, 31, 32, 33, 64, 100] {
                map.set(start..start + len);
                let is_right = |bit: usize| map.is_live(bit) == (start..start + len).contains(&bit);
                assert!(all.clone().all(is_right), "{start} {len}");
                assert_eq!(map.count(all.clone()) as usize, len);
                map.clear(start..start + len);
                assert_eq!(map.count(all.clone()), 0);
            }
        }
    }
}
