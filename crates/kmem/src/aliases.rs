//! The additional names of merged caches, published for processes that read this one.
//!
//! Neighbours: [`crate::create`] merges caches; `slabyard_abi::region::alias` defines the records'
//! layout. Invariants: records change only under the handles' lock, and a record's first word is
//! written last. A name stays as long as its cache: all names of a cache share one handle, so a
//! program that destroys an alias does not say which name it means. Names that do not fit in the
//! table are not published.

use crate::handles::NAME_BYTES;
use crate::mutex::MutexGuard;
use crate::state::YARD;
use slabyard::cache::CacheId;
use slabyard::mail::header;
use slabyard::sync::{AtomicU64, Ordering};
use slabyard_abi::region::Word;
use slabyard_abi::region::alias::WORDS;

/// Names that there is room for.
const MOST: usize = 256;
const _: () = assert!(NAME_BYTES == (WORDS - 1) * 8);

static RECORDS: [[AtomicU64; WORDS]; MOST] = [const { [const { AtomicU64::new(0) }; WORDS] }; MOST];

/// Lets readers know where the records are.
pub(crate) fn publish() {
    header::publish_word(&YARD, Word::NrAliases, MOST as u64);
    header::publish_word(&YARD, Word::Aliases, RECORDS.as_ptr() as u64);
}

fn key(id: CacheId) -> u64 {
    id.number() as u64 | u64::from(id.generation()) << 32
}

/// The cache has this name, too.
pub(crate) fn add(id: CacheId, name: &[u8; NAME_BYTES], _held: &MutexGuard<'_>) {
    let words = |record: &[AtomicU64; WORDS]| {
        let [key, name @ ..] = record;
        (key.load(Ordering::Relaxed), name.each_ref().map(|word| word.load(Ordering::Relaxed)))
    };
    let mut name_words = [0; WORDS - 1];
    for (word, bytes) in name_words.iter_mut().zip(name.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    let is_free = |record: &&[AtomicU64; WORDS]| record[0].load(Ordering::Relaxed) == 0;
    if RECORDS.iter().any(|record| words(record) == (key(id), name_words)) {
        return;
    }
    let Some([first, name @ ..]) = RECORDS.iter().find(is_free) else { return };
    for (to, from) in name.iter().zip(name_words) {
        to.store(from, Ordering::Relaxed);
    }
    // Release: who sees the key sees the name.
    first.store(key(id), Ordering::Release);
}

/// Calls `f` with each further name of a cache.
pub(crate) fn each(
    id: CacheId,
    f: &mut dyn FnMut(&[u8; NAME_BYTES]) -> core::fmt::Result,
) -> core::fmt::Result {
    // Acquire pairs with the Release in `add`.
    let is_its = |record: &&[AtomicU64; WORDS]| record[0].load(Ordering::Acquire) == key(id);
    RECORDS.iter().filter(is_its).try_for_each(|[_, words @ ..]| {
        let mut name = [0; NAME_BYTES];
        for (bytes, word) in name.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        f(&name)
    })
}

/// The cache ended, and its names with it.
pub(crate) fn end(id: CacheId, _held: &MutexGuard<'_>) {
    for record in RECORDS.iter().filter(|record| record[0].load(Ordering::Relaxed) == key(id)) {
        record[0].store(0, Ordering::Relaxed);
    }
}
