//! Reads the words of a yard that change, three times, and between them all rows,
//! twice: in one call, so that what is compared lies microseconds apart.
//!
//! ```text
//! words  rows  words  rows  words
//! ```
//!
//! Neighbours: [`super::judge`] compares; [`super::front`] says where.

use super::front::{Front, Top};
use super::memory::{self, Fault, Memory, Part};
use slabyard_abi::region::{CACHE_WORDS, CacheWord, Word, row};
use std::collections::BTreeSet;

/// Rows whose entries are read one by one, in one call; more of them are read whole.
const FEW_ROWS: usize = 250;
/// Rows behind the last one in use that are looked at again: threads that begin take the
/// next private slots.
const SPARE_ROWS: usize = 32;

/// A row without a stack: most private slots were never used.
pub(crate) const NO_STACKS: [u8; row::BYTES] = [0; row::BYTES];

/// The words of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Words([u64; NR_WORDS]);

const NR_WORDS: usize = CacheWord::Name3.index() + 1;

impl Words {
    fn of(bytes: &[u8]) -> Words {
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
        (1..row::FIRST_RUNS).contains(&slot).then_some(slot)
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

/// One cache, read thrice; its rows, read twice between: the same rows both times.
#[derive(Clone, Debug)]
pub(crate) struct Take {
    pub(crate) words: [Words; 3],
    pub(crate) tops: [Tops; 2],
}

/// The yard's own counters, in the order of [`COUNTERS`].
pub(crate) type Counters = [Option<u64>; COUNTERS.len()];

/// Words of the front that say where a counter is.
pub(crate) const COUNTERS: [Word; 20] = [
    Word::TopAt,
    Word::FreeGranulesAt,
    Word::DirtyGranulesAt,
    Word::NrRunsAt,
    Word::RunGranulesAt,
    Word::NrMappedAt,
    Word::MappedAt,
    Word::MetadataAt0,
    Word::MetadataAt1,
    Word::MetadataAt2,
    Word::MetadataAt3,
    Word::MetadataAt4,
    Word::MetadataAt5,
    Word::MetadataAt6,
    Word::MetadataAt7,
    Word::MetadataAt8,
    Word::DecayMsAt,
    Word::NodeLimitAt,
    Word::SetAsideAt,
    // Not an address: stands for the gate's stripes, summed.
    Word::Gate,
];

/// A whole yard.
pub(crate) struct Collect {
    /// By cache.
    pub(crate) takes: Vec<Take>,
    pub(crate) counters: [Counters; 3],
    /// Bytes in the rows' lists of free runs, each time the rows were read.
    pub(crate) parked_pages: [u64; 2],
    /// Rows with a stack in any entry.
    pub(crate) rows_in_use: u64,
    /// Rows to look at again: those in use, and some more.
    pub(crate) rows_again: usize,
}

/// Reads everything.
pub(crate) fn collect(memory: &dyn Memory, front: &Front) -> Result<Collect, Fault> {
    let caches = Part { address: front.caches, bytes: front.nr_caches * front.cache_stride };
    let rows: Vec<Part> = front.rows(front.nr_rows).collect();
    let gate = Part { address: front.gate, bytes: front.nr_stripes * front.stripe_bytes };
    let at: Vec<Option<u64>> =
        COUNTERS[..COUNTERS.len() - 1].iter().map(|word| front.address(*word)).collect();
    let mut group = vec![caches];
    group.extend(at.iter().flatten().map(|address| Part { address: *address, bytes: 8 }));
    group.push(gate);
    let group_bytes: usize = group.iter().map(|p| p.bytes).sum();

    let mut parts = group.clone();
    for _ in 0..2 {
        parts.extend(&rows);
        parts.extend(&group);
    }
    let bytes = memory::read(memory, &parts)?;
    let step = group_bytes + rows.len() * row::BYTES;
    let group_at = |i: usize| &bytes[i * step..i * step + group_bytes];
    let rows_at = |i: usize| &bytes[i * step + group_bytes..(i + 1) * step];

    let in_use: BTreeSet<usize> = used(rows_at(0)).chain(used(rows_at(1))).collect();
    let cache_words = |i: usize, cache: usize| {
        Words::of(&group_at(i)[cache * front.cache_stride..][..CACHE_WORDS.len() * 8])
    };
    let takes = (0..front.nr_caches).map(|cache| {
        let words = [0, 1, 2].map(|i| cache_words(i, cache));
        let slot = words[0].slot();
        Take { words, tops: [0, 1].map(|i| tops(front, slot, rows_at(i), &in_use)) }
    });
    let counters = [0, 1, 2].map(|i| {
        let mut numbers = memory::words(&group_at(i)[caches.bytes..]);
        let mut all: Counters = [None; COUNTERS.len()];
        for (counter, address) in all.iter_mut().zip(&at) {
            *counter = address.and_then(|_| numbers.next());
        }
        let stripes = &group_at(i)[group_bytes - gate.bytes..];
        let inside = stripes.chunks(front.stripe_bytes).map(|s| u64::from(memory::half(s, 0)));
        all[COUNTERS.len() - 1] = Some(inside.sum());
        all
    });
    Ok(Collect {
        takes: takes.collect(),
        counters,
        parked_pages: [0, 1].map(|i| parked_pages(front, rows_at(i))),
        rows_in_use: in_use.len() as u64,
        rows_again: in_use.last().map_or(0, |last| last + 1) + SPARE_ROWS,
    })
}

/// Reads one cache again, and the first `rows` rows: a row beyond them came into use
/// after all of them were read, and the next look at all of them sees it.
pub(crate) fn again(
    memory: &dyn Memory,
    front: &Front,
    cache: usize,
    rows: usize,
) -> Result<Take, Fault> {
    let rows = rows.min(front.nr_rows);
    let words = Part {
        address: front.caches + (cache * front.cache_stride) as u64,
        bytes: CACHE_WORDS.len() * 8,
    };
    let slot = Words::of(&memory::read(memory, &[words])?).slot();
    let entries: Vec<Part> = match slot {
        Some(slot) if rows <= FEW_ROWS => (0..rows)
            .flat_map(|r| [front.entry(r, slot), front.entry(r, slot + row::SPARE)])
            .map(|address| Part { address, bytes: row::ENTRY_BYTES })
            .collect(),
        Some(_) => front.rows(rows).collect(),
        None => Vec::new(),
    };
    let rows_bytes: usize = entries.iter().map(|p| p.bytes).sum();
    let mut parts = vec![words];
    for _ in 0..2 {
        parts.extend(&entries);
        parts.push(words);
    }
    let bytes = memory::read(memory, &parts)?;
    let step = words.bytes + rows_bytes;
    let rows_at = |i: usize| &bytes[i * step + words.bytes..(i + 1) * step];
    let tops_at = |i: usize| {
        if rows > FEW_ROWS {
            return tops(front, slot, rows_at(i), &(0..rows).collect());
        }
        let pair = |pair: &[u8]| [0, row::ENTRY_BYTES].map(|at| front.top(memory::half(pair, at)));
        (0..).zip(rows_at(i).chunks(2 * row::ENTRY_BYTES).map(pair)).collect()
    };
    Ok(Take {
        words: [0, 1, 2].map(|i| Words::of(&bytes[i * step..i * step + words.bytes])),
        tops: [tops_at(0), tops_at(1)],
    })
}

/// Tops in the rows of these numbers.
fn tops(front: &Front, slot: Option<usize>, rows: &[u8], numbers: &BTreeSet<usize>) -> Tops {
    let Some(slot) = slot else { return Vec::new() };
    let top = |number: usize, slot: usize| {
        front.top(memory::half(rows, number * row::BYTES + slot * row::ENTRY_BYTES))
    };
    let pair =
        |number: &usize| (*number as u32, [top(*number, slot), top(*number, slot + row::SPARE)]);
    numbers.iter().map(pair).collect()
}

fn parked_pages(front: &Front, rows: &[u8]) -> u64 {
    let mut granules = 0u64;
    for row in rows.chunks(row::BYTES).filter(|row| **row != NO_STACKS) {
        for order in 0..row::RUN_ORDERS {
            let entry = (row::FIRST_RUNS + order) * row::ENTRY_BYTES;
            if let Top::Count(count) = front.top(memory::half(row, entry)) {
                granules = granules.saturating_add(count << order);
            }
        }
    }
    granules.saturating_mul(slabyard_abi::region::GRANULE as u64)
}

/// Numbers of the rows with a stack in any entry.
fn used(rows: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let rows = rows.chunks(row::BYTES).enumerate();
    rows.filter(|(_, row)| **row != NO_STACKS).map(|(number, _)| number)
}
