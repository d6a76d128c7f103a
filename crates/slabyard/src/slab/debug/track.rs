//! The callers that allocated and freed an object, recorded in two tracks after its state; and the
//! caller that allocated a block.
//!
//! Neighbour: [`super::Layout`] says where the tracks are. Invariant: only the owner of the object
//! or its state writes the tracks; other threads' reports read them, and may see them change.

use super::Layout;
use super::layout::WORDS;
use crate::pages::PageHeap;
use crate::pages::finding::Track;
use crate::platform::Platform;
use crate::slab::debug::layout::TRACK_BYTES;
use crate::sync::{AtomicU64, Ordering};
use slabyard_abi::debug::DebugFlags;
use slabyard_abi::region::debugging as abi;

/// The two tracks that an object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackKind {
    /// Of the last allocation.
    Alloc = 0,
    /// Of the last free.
    Free = 1,
}

/// Where a track of an object begins.
fn track_of(layout: &Layout, object: usize, which: TrackKind) -> usize {
    object + layout.tracks() + which as usize * TRACK_BYTES as usize
}

fn track_words<P: Platform>(p: &P, begin: usize) -> [&AtomicU64; WORDS] {
    core::array::from_fn(|nth| {
        // SAFETY: there is room for tracks behind each object of a slab, and at the end of each
        // block, which are committed, and only this module uses it.
        unsafe { p.word(begin + nth * size_of::<u64>()) }
    })
}

/// Writes who allocates or frees an object, where that is tracked.
pub fn set_track<P: Platform>(
    heap: &PageHeap<P>,
    layout: &Layout,
    object: usize,
    which: TrackKind,
    bytes: u32,
) {
    if layout.flags.has(DebugFlags::TRACK) {
        write_track(heap, track_of(layout, object, which), bytes.into());
    }
}

/// Writes who calls, and how many bytes it is about.
pub(super) fn write_track<P: Platform>(heap: &PageHeap<P>, begin: usize, bytes: u64) {
    let mut track = Track {
        row: heap.platform.row_hint().map_or(u32::MAX, |row| row as u32),
        time_ns: heap.platform.now_ns(),
        bytes,
        ..Track::default()
    };
    if let Some(hooks) = heap.reports.hooks.try_get() {
        (hooks.track)(&mut track);
    }
    let mut words = [0; WORDS];
    for (word, frame) in words.iter_mut().zip(track.frames) {
        *word = frame as u64;
    }
    words[abi::WHO] = u64::from(track.row) << 32 | u64::from(track.thread);
    // Not 0, which says that nobody did.
    words[abi::TIME] = track.time_ns | 1;
    words[abi::BYTES] = track.bytes & ((1 << abi::BYTES_BITS) - 1);
    words[abi::BYTES] |= abi::check(&words) << abi::BYTES_BITS;
    for (to, word) in track_words(&heap.platform, begin).into_iter().zip(words) {
        to.store(word, Ordering::Relaxed);
    }
}

/// Who did it last, where that is tracked; `None` if nobody did.
pub fn track<P: Platform>(
    p: &P,
    layout: &Layout,
    object: usize,
    which: TrackKind,
) -> Option<Track> {
    layout.flags.has(DebugFlags::TRACK).then(|| read_track(p, track_of(layout, object, which)))?
}

/// What [`write_track`] wrote; [`Track::SPOILED`] where the program wrote over it.
pub(super) fn read_track<P: Platform>(p: &P, begin: usize) -> Option<Track> {
    let words = track_words(p, begin).map(|word| word.load(Ordering::Relaxed));
    let who = words[abi::WHO];
    let track = Track {
        frames: core::array::from_fn(|nth| words[nth] as usize),
        thread: who as u32,
        row: (who >> 32) as u32,
        time_ns: words[abi::TIME],
        bytes: words[abi::BYTES] & ((1 << abi::BYTES_BITS) - 1),
    };
    match abi::is_whole(&words) {
        _ if words == [0; WORDS] => None,
        true => Some(track),
        false => Some(Track::SPOILED),
    }
}

/// Nobody did anything with an object of a new slab yet.
pub(super) fn clear_tracks<P: Platform>(p: &P, layout: &Layout, object: usize) {
    if layout.flags.has(DebugFlags::TRACK) {
        for which in [TrackKind::Alloc, TrackKind::Free] {
            track_words(p, track_of(layout, object, which))
                .iter()
                .for_each(|word| word.store(0, Ordering::Relaxed));
        }
    }
}
