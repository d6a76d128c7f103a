//! Writes the region's header, from which another process, or the reader of a core file, finds all
//! parts of this yard (`abi::region`).
//!
//! Invariant: the magic number is written last, so a reader that sees it sees the rest; afterwards
//! only the mailbox's words change.

use crate::cache::Cache;
use crate::cache::classes::CLASSES;
use crate::engine::Engine;
use crate::pages::published;
use crate::platform::Platform;
use crate::sync::{AtomicU64, Ordering};
use crate::yard::Yard;
use slabyard_abi::region::{MAGIC, VERSION, Word, row};
use slabyard_abi::stats::CACHE_BYTES;

/// `abi::region` defines the layout for such machines only.
const READABLE: bool = cfg!(all(target_pointer_width = "64", target_endian = "little"));

/// Makes the yard readable from outside: writes the header, which holds the yard's
/// addresses. The yard is ready. `mode` is how CPUs are told apart: 1 by the C library's
/// rseq, 2 by our own rseq, 3 by private slots.
pub fn publish<P: Platform, E: Engine>(yard: &'static Yard<P, E>, mode: u64) {
    if !READABLE {
        return;
    }
    published::publish(&yard.heap);
    publish_word(yard, Word::Version, VERSION);
    publish_word(yard, Word::Mode, mode);
    publish_word(yard, Word::Engine, yard.engine().number());
    publish_word(yard, Word::HeaderBytes, yard.platform().page_bytes() as u64);
    publish_word(yard, Word::Caches, yard.caches.classes()[0].shown_at() as u64);
    publish_word(yard, Word::NrCaches, CLASSES as u64);
    publish_word(yard, Word::CacheStride, size_of::<Cache<E>>() as u64);
    let first = &yard.caches.classes()[0];
    if let Some((words, stride)) = first.engine.node_words(first.on(&yard.heap)) {
        publish_word(yard, Word::Nodes, yard.heap.region.nodes() as u64);
        publish_word(yard, Word::NodeWords, (words - first.shown_at()) as u64);
        publish_word(yard, Word::NodeStride, stride as u64);
    }
    if let Some(word) = first.engine.debugging_word() {
        publish_word(yard, Word::Debugging, (word - first.shown_at()) as u64);
    }
    let [gate, stripes, bytes] = yard.gate.words();
    publish_word(yard, Word::Gate, gate as u64);
    publish_word(yard, Word::NrStripes, stripes as u64);
    publish_word(yard, Word::StripeBytes, bytes as u64);
    let [created, nr_created, bytes] = yard.caches.words_at();
    publish_word(yard, Word::CreatedAt, created as u64);
    publish_word(yard, Word::NrCreatedAt, nr_created as u64);
    publish_word(yard, Word::MetadataAt9, bytes as u64);
    let [first, created] = yard.idle_stacks.committed_at();
    publish_word(yard, Word::MetadataAt6, first as u64);
    publish_word(yard, Word::MetadataAt10, created as u64);
    publish_word(yard, Word::DecayMsAt, yard.decay_ms.as_ptr() as u64);
    let counts = yard.platform().counts_at();
    publish_word(yard, Word::Counts, counts as u64);
    publish_word(yard, Word::CountsRowBytes, (row::CACHES * CACHE_BYTES) as u64);
    publish_word(yard, Word::CountsCacheBytes, CACHE_BYTES as u64);
    let header = yard.platform().rows().header();
    for (word, bytes) in header.iter().zip(MAGIC.as_chunks().0) {
        // Release: a reader that sees the magic sees the words above.
        word.store(u64::from_le_bytes(*bytes), Ordering::Release);
    }
}

/// Shows a word of what is outside of the yard and lives as long as the process: an address, which
/// is 0 from when on it is not there, or how many there are.
pub fn publish_word<P: Platform, E: Engine>(yard: &Yard<P, E>, word: Word, value: u64) {
    header_word(yard, word.index()).store(value, Ordering::Relaxed);
}

pub(crate) fn header_word<P: Platform, E: Engine>(yard: &Yard<P, E>, index: usize) -> &AtomicU64 {
    &yard.platform().rows().header()[index]
}
