//! The words of one cache and the stack tops of its entries, as read.
//!
//! Neighbours: `slabyard_abi::region::CacheWord` numbers the words; [`super::collect`] reads them.

use super::front::{Front, NodeTable, Top};
use super::memory;
use slabyard_abi::region::{CacheWord, NodeWord, front as bits, row};

/// The words of one cache, and of it at each memory node where there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheWords {
    all: [u64; NR_WORDS],
    nodes: [[u64; NR_NODE_WORDS]; NodeTable::MOST],
}

const NR_WORDS: usize = CacheWord::Name3.index() + 1;
const NR_NODE_WORDS: usize = NodeWord::BarnFullLimit.index() + 1;

impl CacheWords {
    /// From what was read of a cache: at least as many bytes as its words have.
    pub(crate) fn of(front: &Front, bytes: &[u8]) -> CacheWords {
        let mut words =
            CacheWords { all: [0; NR_WORDS], nodes: [[0; NR_NODE_WORDS]; NodeTable::MOST] };
        let copy = |to: &mut [u64], bytes: &[u8]| {
            to.iter_mut().zip(memory::words(bytes)).for_each(|(to, from)| *to = from);
        };
        copy(&mut words.all, bytes);
        if let Some(NodeTable { nodes, offset, stride }) = front.nodes.filter(|_| words.has_nodes())
        {
            for (nth, node) in words.nodes[..nodes].iter_mut().enumerate() {
                copy(node, bytes.get(offset + nth * stride..).unwrap_or_default());
            }
        }
        words
    }

    pub(crate) fn get(&self, word: CacheWord) -> u64 {
        self.all[word.index()]
    }

    /// True if the cache has words for each memory node.
    pub(crate) fn has_nodes(&self) -> bool {
        self.get(CacheWord::Front) & bits::NODES != 0
    }

    /// A word of the cache at a node, where there are several.
    pub(crate) fn at_node(&self, node: usize, word: NodeWord) -> u64 {
        self.nodes[node][word.index()]
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
        text(&words.map(|word| self.get(word)))
    }
}

/// The text in words, up to a 0; what cannot be shown is replaced.
pub(crate) fn text(words: &[u64]) -> String {
    let bytes: Vec<u8> =
        words.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0).collect();
    let text = String::from_utf8_lossy(&bytes);
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Rows by number, and the tops of a cache's main and spare entry in each.
pub(crate) type Tops = Vec<(u32, [Top; 2])>;
