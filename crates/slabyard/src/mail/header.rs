//! Writes the region's header: by its words another process, or the reader of a core file, finds
//! all parts of this yard (`abi::region`).
//!
//! Invariant: the magic is written last, so that a reader that finds it finds the rest; only
//! the mailbox's words change afterwards.

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

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Makes the yard readable from outside: writes the header, which holds the yard's
    /// addresses. The yard is ready. `mode` is how CPUs are told apart: 1 by the C library's
    /// rseq, 2 by our own rseq, 3 by private slots.
    pub fn publish(&'static self, mode: u64) {
        if !READABLE {
            return;
        }
        published::publish(&self.heap);
        publish_word(self, Word::Version, VERSION);
        publish_word(self, Word::Mode, mode);
        publish_word(self, Word::Engine, self.engine().number());
        publish_word(self, Word::HeaderBytes, self.platform().page_bytes() as u64);
        publish_word(self, Word::Caches, self.caches.classes()[0].shown_at() as u64);
        publish_word(self, Word::NrCaches, CLASSES as u64);
        publish_word(self, Word::CacheStride, size_of::<Cache<E>>() as u64);
        let first = &self.caches.classes()[0];
        if let Some((words, stride)) = first.engine.node_words() {
            publish_word(self, Word::Nodes, self.heap.region.nodes() as u64);
            publish_word(self, Word::NodeWords, (words - first.shown_at()) as u64);
            publish_word(self, Word::NodeStride, stride as u64);
        }
        if let Some(word) = first.engine.debugging_word() {
            publish_word(self, Word::Debugging, (word - first.shown_at()) as u64);
        }
        let [gate, stripes, bytes] = self.gate.words();
        publish_word(self, Word::Gate, gate as u64);
        publish_word(self, Word::NrStripes, stripes as u64);
        publish_word(self, Word::StripeBytes, bytes as u64);
        let [created, nr_created, bytes] = self.caches.words_at();
        publish_word(self, Word::CreatedAt, created as u64);
        publish_word(self, Word::NrCreatedAt, nr_created as u64);
        publish_word(self, Word::MetadataAt9, bytes as u64);
        let [first, created] = self.idle_stacks.committed_at();
        publish_word(self, Word::MetadataAt6, first as u64);
        publish_word(self, Word::MetadataAt10, created as u64);
        publish_word(self, Word::DecayMsAt, self.decay_ms.as_ptr() as u64);
        let counts = self.platform().counts_at();
        publish_word(self, Word::Counts, counts as u64);
        publish_word(self, Word::CountsRowBytes, (row::CACHES * CACHE_BYTES) as u64);
        publish_word(self, Word::CountsCacheBytes, CACHE_BYTES as u64);
        let header = self.platform().rows().header();
        for (word, bytes) in header.iter().zip(MAGIC.as_chunks().0) {
            // Release: a reader that sees the magic sees the words above.
            word.store(u64::from_le_bytes(*bytes), Ordering::Release);
        }
    }

    /// Shows what is counted of memory pressure (`abi::pressure`), which lives as long as the
    /// process: so many counts from an address on, and where refused pages are counted, and bytes
    /// of drains for them.
    pub fn publish_pressure(&self, counts: usize, nr: usize, [refused, returned]: [usize; 2]) {
        publish_word(self, Word::Pressure, counts as u64);
        publish_word(self, Word::NrPressure, nr as u64);
        publish_word(self, Word::RefusedAt, refused as u64);
        publish_word(self, Word::ReturnedAt, returned as u64);
    }

    /// Shows further names of caches that merged (`abi::region::alias`), which live as long as the
    /// process: so many records from an address on.
    pub fn publish_aliases(&self, records: usize, nr: usize) {
        publish_word(self, Word::NrAliases, nr as u64);
        publish_word(self, Word::Aliases, records as u64);
    }

    /// Shows the helper's words (`abi::region::helper`), which live as long as the process, at an
    /// address.
    pub fn publish_helper(&self, words: usize) {
        publish_word(self, Word::Helper, words as u64);
    }

    /// Shows the words of who has a thread serve from outside (`abi::region::outside`), which live as
    /// long as the process, at an address; 0: none can from now on.
    pub fn publish_outside(&self, words: usize) {
        publish_word(self, Word::Outside, words as u64);
    }
}

fn publish_word<P: Platform, E: Engine>(yard: &Yard<P, E>, word: Word, value: u64) {
    header_word(yard, word.index()).store(value, Ordering::Relaxed);
}

pub(crate) fn header_word<P: Platform, E: Engine>(yard: &Yard<P, E>, index: usize) -> &AtomicU64 {
    &yard.platform().rows().header()[index]
}
