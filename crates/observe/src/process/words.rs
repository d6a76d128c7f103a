//! The words of one cache as they were read, and the tops of its entries.
//!
//! Neighbours: `slabyard_abi::region::CacheWord` numbers the words; [`super::collect`] reads them.

use super::front::Top;
use super::memory;
use slabyard_abi::region::{CacheWord, row};

/// The words of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Words([u64; NR_WORDS]);

const NR_WORDS: usize = CacheWord::Name3.index() + 1;

impl Words {
    pub(crate) fn of(bytes: &[u8]) -> Words {
        let mut all = [0; NR_WORDS];
        all.iter_mut().zip(memory::words(bytes)).for_each(|(to, from)| *to = from);
        Words(all)
    }

    pub(crate) fn get(&self, word: CacheWord) -> u64 {
        self.0[word.index()]
    }

    /// Slot of the main sheaves; `None` for a cache that is not in use.
    pub(crate) fn slot(&self) -> Option<usize> {
        let slot = usize::try_from(self.get(CacheWord::Slot)).ok()?;
        let is_main = slot.is_multiple_of(row::PAIR);
        (row::FIRST_CACHE..row::SLOTS).contains(&slot).then_some(slot).filter(|_| is_main)
    }

    /// Slow paths begun and ended.
    pub(crate) fn version(&self) -> (u32, u32) {
        let version = self.get(CacheWord::Version);
        (version as u32, (version >> 32) as u32)
    }

    /// The name; what cannot be shown is replaced.
    pub(crate) fn name(&self) -> String {
        let words = [CacheWord::Name0, CacheWord::Name1, CacheWord::Name2, CacheWord::Name3];
        let bytes: Vec<u8> = words
            .iter()
            .flat_map(|word| self.get(*word).to_le_bytes())
            .take_while(|byte| *byte != 0)
            .collect();
        let text = String::from_utf8_lossy(&bytes);
        text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
    }
}

/// Rows by number, and the tops of a cache's main and spare entry in each.
pub(crate) type Tops = Vec<(u32, [Top; 2])>;
