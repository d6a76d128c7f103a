//! Runs and mappings with debugging: a red zone after the requested bytes, and a seal at the end.
//!
//! ```text
//! block                 + requested        end - SEAL   end - 24 end - 16    end
//! +---------------------+------------------+------------+--------+-----------+- - - - - - -+
//! | requested           | red zone, 0xcc   | track      | link   | seal      | guard page  |
//! +---------------------+------------------+------------+--------+-----------+- - - - - - -+
//! ```
//!
//! The track records the caller that allocated the block, if the debug flag U is set. The link is
//! that of a deferred free ([`crate::waiting::deferred`]).
//!
//! The seal holds the requested size, the function that allocated ([`Maker`]), and a checksum of
//! these and the address; a free invalidates it, so that only one of two concurrent frees succeeds.
//! A mapping is followed by a page that faults; after the mapping is freed, all of its pages fault
//! until it leaves quarantine ([`crate::debugging::large`]).

use super::Maker;
use super::object::check_of;
use crate::pages::PageHeap;
use crate::pages::finding::{Bytes, FindingKind, Track};
use crate::platform::Platform;
use crate::slab::debug::layout::TRACK_BYTES;
use crate::slab::debug::{object, track};
use crate::sync::{AtomicU64, Ordering};

/// Bytes of the track, the link and the seal.
pub const SEAL: usize = TRACK_BYTES as usize + LINK;
/// The link's place before the end.
const LINK: usize = 24;
const RED_LIVE: u8 = 0xcc;
/// Where the maker's bits begin in a seal.
const MAKER: u32 = 62;

/// Where the link of a deferred free of a block is.
pub fn link_of_block(end: usize) -> usize {
    end - LINK
}

fn seal<P: Platform>(p: &P, end: usize) -> [&AtomicU64; 2] {
    [2, 1].map(|nth| {
        // SAFETY: the end of a live run or mapping, which is committed, and where the owner
        // has no byte.
        unsafe { p.word(end - nth * size_of::<u64>()) }
    })
}

/// Seals a block that ends at `end`, whole pages behind its address, and fills its red zone.
pub fn seal_block<P: Platform>(p: &P, address: usize, end: usize, requested: usize, maker: Maker) {
    let (begin, bytes) = zone(p, address, end, requested);
    // SAFETY: the block is ours, and the zone in it.
    unsafe { p.fill(begin, bytes, RED_LIVE) };
    write_seal(p, address, end, requested, maker);
}

fn write_seal<P: Platform>(p: &P, address: usize, end: usize, requested: usize, maker: Maker) {
    let [bytes, check] = seal(p, end);
    let word = requested as u64 | u64::from(maker as u8) << MAKER;
    bytes.store(word, Ordering::Relaxed);
    // Relaxed: who reads the seal is the owner, or looks while nothing changes (`yard::looks`).
    check.store(check_of(word, address), Ordering::Relaxed);
}

/// Notes who allocated a block, which its owner is about to get.
pub fn note_maker_of_block<P: Platform>(p: &P, address: usize, end: usize, maker: Maker) {
    if let Some((requested, _)) = sealed_by(p, address, end) {
        write_seal(p, address, end, requested, maker);
    }
}

/// Writes who allocates a block.
pub fn track_block<P: Platform>(heap: &PageHeap<P>, end: usize, requested: usize) {
    track::write_track(heap, end - SEAL, requested as u64);
}

/// Who allocated a block whose blocks have tracks, if the bytes that are wrong do not reach it.
pub fn block_track<P: Platform>(p: &P, end: usize, wrong: Option<Bytes>) -> Option<Track> {
    let is_whole = wrong.is_some_and(|bytes| bytes.last + 1 < end - SEAL);
    is_whole.then(|| track::read_track(p, end - SEAL))?
}

/// How much was requested of a block; `None` if its seal was written over, or broken by a free.
pub fn sealed<P: Platform>(p: &P, address: usize, end: usize) -> Option<usize> {
    sealed_by(p, address, end).map(|(requested, _)| requested)
}

/// As [`sealed`], and who allocated it.
pub fn sealed_by<P: Platform>(p: &P, address: usize, end: usize) -> Option<(usize, Maker)> {
    let [bytes, check] = seal(p, end);
    let word = bytes.load(Ordering::Relaxed);
    let is_sealed = check.load(Ordering::Relaxed) == check_of(word, address);
    let requested = (word & ((1 << MAKER) - 1)) as usize;
    let is_sealed = is_sealed && requested <= end - SEAL - address;
    is_sealed.then_some((requested, Maker::of(word >> MAKER)?))
}

/// Breaks the seal for a free. False if another free did.
pub fn break_seal<P: Platform>(p: &P, address: usize, end: usize) -> bool {
    let [bytes, check] = seal(p, end);
    let sealed = check_of(bytes.load(Ordering::Relaxed), address);
    check.compare_exchange(sealed, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// What is wrong with a block's red zone or seal.
pub fn wrong_block<P: Platform>(
    p: &P,
    address: usize,
    end: usize,
) -> Option<(FindingKind, Option<Bytes>)> {
    let Some(requested) = sealed(p, address, end) else {
        return Some((FindingKind::State, None));
    };
    let (begin, bytes) = zone(p, address, end, requested);
    let wrong = object::wrong_in(p, begin, bytes, RED_LIVE)?;
    Some((FindingKind::RightRedZone, Some(wrong)))
}

/// Begin and bytes of a block's red zone: of one of no bytes, behind its first page, which may
/// fault.
fn zone<P: Platform>(p: &P, address: usize, end: usize, requested: usize) -> (usize, usize) {
    let page = p.page_bytes();
    let skipped = if requested == 0 && end - address > page { page } else { requested };
    let begin = address + skipped;
    (begin, end - SEAL - begin)
}
