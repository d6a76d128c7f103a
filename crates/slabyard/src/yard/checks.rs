//! The state of the close checks for misuse: how many frees are still to be checked, and the table
//! of bitmap words for the check at process exit.
//!
//! Neighbour: [`crate::verify::close`] does the checks.

use crate::slab::Word;
use crate::sync::{AtomicU32, AtomicU64, Ordering, TryLock};

/// Bitmap words that the check at the end keeps of one cache: objects of further words are not
/// checked. A small process parks some 64 objects of a size, in 2 to 4 words; one that made
/// 20,000 allocations of mixed sizes some hundred.
pub(crate) const WORDS: usize = 1024;

/// Of these this many are used, so that a search for one that is not there ends soon.
pub(crate) const MOST_WORDS: usize = WORDS / 4 * 3;

/// Objects of all stacks that it looks at, so that the end of a large process is not felt: 20 ns
/// each.
const ALL_LOOKS: usize = 32 << 10;

/// The state of the close checks.
pub(crate) struct Checks {
    /// How many more frees are checked closely.
    pub(crate) left: AtomicU32,
    /// 1: [`Checks::left`] was set above 0.
    pub(crate) began: AtomicU32,
    pub(crate) table: Table,
}

impl Checks {
    pub(crate) const fn new() -> Self {
        Checks { left: AtomicU32::new(0), began: AtomicU32::new(0), table: Table::new() }
    }

    /// True while frees are checked closely.
    #[inline]
    pub(crate) fn are_close(&self) -> bool {
        self.left.load(Ordering::Relaxed) != 0
    }

    /// True if frees were checked closely once.
    pub(crate) fn began(&self) -> bool {
        self.began.load(Ordering::Relaxed) != 0
    }

    /// Counts one checked free; `u32::MAX` stands for all.
    pub(crate) fn take(&self) {
        let left = self.left.load(Ordering::Relaxed);
        if left != u32::MAX && left != 0 {
            // Two threads may count the same one: one check more than asked for.
            self.left.store(left - 1, Ordering::Relaxed);
        }
    }
}

/// Words of bitmaps, with a bit for each object that is free or was seen: a hash table (Knuth,
/// TAOCP 6.4, linear probing) of keys and bits, in zeros that no process touches but here.
pub(crate) struct Table {
    /// Taken while it is used.
    pub(crate) taken: TryLock,
    /// The number of a look at one cache. Keys of earlier looks count as no key.
    pub(crate) look: AtomicU32,
    pub(crate) words: [[AtomicU64; 2]; WORDS],
}

impl Table {
    pub(crate) const fn new() -> Self {
        Table {
            taken: TryLock::new(),
            look: AtomicU32::new(0),
            words: [const { [const { AtomicU64::new(0) }; 2] }; WORDS],
        }
    }
}

/// The table, for one who looks.
pub(crate) struct LookGuard<'a> {
    pub(crate) table: &'a Table,
    /// Of the look that is under way.
    pub(crate) nr_words: usize,
    pub(crate) look: u64,
    /// Objects that may be looked at.
    pub(crate) left: usize,
}

impl Drop for LookGuard<'_> {
    fn drop(&mut self) {
        self.table.taken.release();
    }
}

impl<'a> LookGuard<'a> {
    /// Bits of a key: the slab, the word in it, the look.
    pub(crate) const SLAB: u32 = 32;
    pub(crate) const WORD: u32 = 12;
    pub(crate) const LOOKS: u32 = 1 << (u64::BITS - Self::SLAB - Self::WORD);

    /// `None` while another thread looks.
    pub(crate) fn take(table: &'a Table) -> Option<Self> {
        let is_free = table.taken.try_acquire();
        is_free.then_some(LookGuard { table, nr_words: 0, look: 0, left: ALL_LOOKS })
    }

    pub(crate) fn begin_cache(&mut self) {
        self.nr_words = 0;
        // From 1 on: a key of zeros is none.
        let look = self.table.look.load(Ordering::Relaxed) % (Self::LOOKS - 1) + 1;
        self.table.look.store(look, Ordering::Relaxed);
        self.look = look.into();
    }

    /// The bits of a word, at first those that `read` returns; `None` if there is no room for
    /// another word, or enough objects were looked at.
    #[inline]
    pub(crate) fn bits(
        &mut self,
        slab: u32,
        word: Word,
        read: impl FnOnce() -> u64,
    ) -> Option<&'a AtomicU64> {
        self.left = self.left.checked_sub(1)?;
        let nth = u64::from(word.index_of(0) / Word::OBJECTS);
        debug_assert!(nth < 1 << Self::WORD);
        let table = self.table;
        let key = (self.look << Self::WORD | nth) << Self::SLAB | u64::from(slab);
        let hash = (key << 16 ^ key >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut at = (hash >> (u64::BITS - WORDS.ilog2())) as usize;
        loop {
            let [known, bits] = &table.words[at];
            let found = known.load(Ordering::Relaxed);
            if found == key {
                return Some(bits);
            }
            if found >> (Self::SLAB + Self::WORD) != self.look {
                if self.nr_words == MOST_WORDS {
                    return None;
                }
                self.nr_words += 1;
                bits.store(read(), Ordering::Relaxed);
                known.store(key, Ordering::Relaxed);
                return Some(bits);
            }
            at = (at + 1) % WORDS;
        }
    }
}
