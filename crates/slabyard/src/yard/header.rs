//! Writes the header: by its words another process, or the reader of a core file,
//! finds everything of this yard (`abi::region`).
//!
//! Invariant: the magic is written last, so that who finds it finds the rest; no word
//! but the mailbox's changes after it.

use super::Yard;
use crate::cache::classes::CLASSES;
use crate::engine::slub::Cache;
use crate::platform::Platform;
use crate::sync::{AtomicU64, Ordering};
use slabyard_abi::region::{MAGIC, VERSION, Word};

/// The layout says how words lie in memory; this is the only one that it says it for.
const READABLE: bool = cfg!(all(target_pointer_width = "64", target_endian = "little"));

impl<P: Platform> Yard<P> {
    /// Makes the yard readable from outside: writes the header. The yard is ready, and
    /// stays where it is, because the header says where. `mode` says how CPUs are told
    /// apart: 1 the C library's rseq, 2 own rseq, 3 private slots.
    pub fn show(&'static self, mode: u64) {
        if !READABLE {
            return;
        }
        self.heap.publish_header();
        self.tell(Word::Version, VERSION);
        self.tell(Word::Mode, mode);
        self.tell(Word::HeaderBytes, self.platform().page_bytes() as u64);
        self.tell(Word::Caches, self.caches[0].shown_at() as u64);
        self.tell(Word::NrCaches, CLASSES as u64);
        self.tell(Word::CacheStride, size_of::<Cache>() as u64);
        let [gate, stripes, bytes] = self.gate.words();
        self.tell(Word::Gate, gate as u64);
        self.tell(Word::NrStripes, stripes as u64);
        self.tell(Word::StripeBytes, bytes as u64);
        self.tell(Word::MetadataAt6, self.seen.committed_at() as u64);
        self.tell(Word::DecayMsAt, self.decay_ms.as_ptr() as u64);
        let header = self.platform().rows().header();
        for (word, bytes) in header.iter().zip(MAGIC.as_chunks().0) {
            // Release: the words above are there first.
            word.store(u64::from_le_bytes(*bytes), Ordering::Release);
        }
    }

    fn tell(&self, word: Word, value: u64) {
        self.word(word.index()).store(value, Ordering::Relaxed);
    }

    /// A word of the header.
    pub(super) fn word(&self, index: usize) -> &AtomicU64 {
        &self.platform().rows().header()[index]
    }
}
