//! Runs and mappings with debugging: a red zone behind what was requested, and a seal at the end.
//!
//! ```text
//! block                 + requested        end - SEAL   end - 16    end
//! +---------------------+------------------+------------+-----------+- - - - - - -+
//! | requested           | red zone, 0xcc   | track      | seal      | guard page  |
//! +---------------------+------------------+------------+-----------+- - - - - - -+
//! ```
//!
//! The track says who allocated it, with the flag U.
//!
//! The seal is how much was requested, and a sum of it and the address; a free breaks it, so that
//! of two frees at once one succeeds. A mapping has a page behind it that cannot be used, and a
//! freed one is such pages until it leaves quarantine ([`crate::guarded`]).

use super::object::check_of;
use super::track::TRACK_BYTES;
use crate::pages::PageHeap;
use crate::pages::finding::{Bytes, Track, What};
use crate::platform::Platform;
use crate::sync::{AtomicU64, Ordering};

/// Bytes of the track and the seal.
pub const SEAL: usize = TRACK_BYTES as usize + 16;
const RED_LIVE: u8 = 0xcc;

impl<P: Platform> PageHeap<P> {
    fn seal(&self, end: usize) -> [&AtomicU64; 2] {
        [2, 1].map(|nth| {
            // SAFETY: the end of a live run or mapping, which is committed, and where the owner
            // has no byte.
            unsafe { self.platform.word_in_slab(end - nth * size_of::<u64>()) }
        })
    }

    /// Seals a new block that ends at `end`: whole pages behind its address.
    pub fn seal_block(&self, address: usize, end: usize, requested: usize) {
        let zone = end - SEAL - (address + requested);
        // SAFETY: the block is ours, and the zone in it.
        unsafe { self.platform.fill(address + requested, zone, RED_LIVE) };
        let [bytes, check] = self.seal(end);
        bytes.store(requested as u64, Ordering::Relaxed);
        check.store(check_of(requested as u64, address), Ordering::Release);
    }

    /// Writes who allocates a block.
    pub fn track_block(&self, end: usize, requested: usize) {
        self.write_track(end - SEAL, requested as u64);
    }

    /// Who allocated a block whose blocks have tracks, if the bytes that are wrong do not reach it.
    pub fn block_track(&self, end: usize, wrong: Option<Bytes>) -> Option<Track> {
        let is_whole = wrong.is_some_and(|bytes| bytes.last + 1 < end - SEAL);
        is_whole.then(|| self.read_track(end - SEAL))?
    }

    /// How much was requested of a block; `None` if its seal was written over, or broken by a free.
    pub fn sealed(&self, address: usize, end: usize) -> Option<usize> {
        let [bytes, check] = self.seal(end);
        let requested = bytes.load(Ordering::Relaxed);
        let is_sealed = check.load(Ordering::Acquire) == check_of(requested, address);
        (is_sealed && requested as usize <= end - SEAL - address).then_some(requested as usize)
    }

    /// Breaks the seal for a free. False if another free did.
    pub fn break_seal(&self, address: usize, end: usize, requested: usize) -> bool {
        let sealed = check_of(requested as u64, address);
        let (set, seen) = (Ordering::AcqRel, Ordering::Relaxed);
        self.seal(end)[1].compare_exchange(sealed, 0, set, seen).is_ok()
    }

    /// What is wrong with a block's red zone or seal.
    pub fn wrong_block(&self, address: usize, end: usize) -> Option<(What, Option<Bytes>)> {
        let Some(requested) = self.sealed(address, end) else {
            return Some((What::State, None));
        };
        let begin = address + requested;
        let wrong = self.wrong_in(begin, end - SEAL - begin, RED_LIVE)?;
        Some((What::RightRedZone, Some(wrong)))
    }
}
