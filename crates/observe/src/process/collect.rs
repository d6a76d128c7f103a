//! Reads a yard's changing words three times and, between these reads, all per-CPU rows twice. One
//! call makes all these reads, so the compared values are microseconds apart.
//!
//! ```text
//! words  rows  words  rows  words
//! ```
//!
//! For caches with CPU slabs, [`super::cpu_slabs_held`] then reads the slabs that CPUs hold; a
//! further reading of the words replaces the last one.
//!
//! Neighbours: [`super::judge`] compares the readings; [`super::front`] supplies the addresses.

use super::banks::{self, Banked};
use super::cpu_slabs_held::{self, CpuSlabsHeld};
use super::front::{Front, Tables, Top};
use super::memory::{self, Fault, Memory, MemoryPart};
use super::words::{CacheWords, Tops};
use slabyard_abi::region::{METADATA, Word, row};
use std::collections::{BTreeMap, BTreeSet};

/// Rows whose entries are read one by one, in one call; more of them are read whole.
const FEW_ROWS: usize = 250;
/// Rows behind the last one in use that are looked at again: threads that begin take the
/// next private slots.
const SPARE_ROWS: usize = 32;

/// True if a row has no stack: most private slots were never used.
pub(crate) fn has_stack(row: &[u8]) -> bool {
    row[row::FIRST_RUNS * row::ENTRY_BYTES..].iter().any(|byte| *byte != 0)
}

/// One cache, read thrice; its rows, read twice between: the same rows both times.
#[derive(Clone, Debug)]
pub(crate) struct CacheReading {
    pub(crate) words: [CacheWords; 3],
    pub(crate) tops: [Tops; 2],
    /// What CPUs hold of slabs, read after the rows, of a cache with CPU slabs.
    pub(crate) held: Option<CpuSlabsHeld>,
}

/// Reads what CPUs hold of caches with CPU slabs, and the words of these caches once more, which
/// are in the parts of memory that `at` names.
fn hold(
    memory: &dyn Memory,
    front: &Front,
    takes: &mut [CacheReading],
    at: impl Fn(usize) -> MemoryPart,
) -> Result<(), Fault> {
    let has = |take: &CacheReading| {
        take.words[2].slot().and(cpu_slabs_held::kind(&take.words[2])).is_some()
    };
    let which: Vec<usize> = (0..takes.len()).filter(|nth| has(&takes[*nth])).collect();
    if which.is_empty() {
        return Ok(());
    }
    let tops = which.iter().map(|nth| {
        let CacheReading { words: [.., words], tops: [_, tops], .. } = &takes[*nth];
        let tops = if cpu_slabs_held::are_stacks(words) {
            Ok(tops.clone())
        } else {
            cpu_slabs_held::banks(memory, front, words)
        };
        Ok((words, tops?))
    });
    let tops = tops.collect::<Result<Vec<_>, Fault>>()?;
    let caches: Vec<_> = tops.iter().map(|(words, tops)| (*words, tops)).collect();
    let all = cpu_slabs_held::read(memory, front, &caches)?;
    let parts: Vec<MemoryPart> = which.iter().map(|nth| at(*nth)).collect();
    let words = memory::read(memory, &parts)?;
    let words = words.chunks(front.words_bytes()).map(|bytes| CacheWords::of(front, bytes));
    for ((nth, held), words) in which.into_iter().zip(all).zip(words) {
        let take = &mut takes[nth];
        // What changed before it was read counts as a change, too.
        if take.words[1] == take.words[2] {
            take.words[2] = words;
        }
        take.held = Some(held);
    }
    Ok(())
}

/// What the yard counts, by the word of the header that says where; the gate's stripes are summed.
pub(crate) type Counters = BTreeMap<Word, u64>;

/// Words of the header that say where a counter is.
pub(crate) fn counters() -> impl Iterator<Item = Word> {
    let counters = [
        Word::TopAt,
        Word::FreeGranulesAt,
        Word::DirtyGranulesAt,
        Word::NrRunsAt,
        Word::RunGranulesAt,
        Word::NrMappedAt,
        Word::MappedAt,
        Word::DecayMsAt,
        Word::NodeLimitAt,
        Word::SetAsideAt,
        Word::RowBytesAt,
    ];
    counters.into_iter().chain(METADATA)
}

/// What was read of a yard in one pass.
pub(crate) struct Collect {
    pub(crate) takes: Vec<CacheReading>,
    pub(crate) counters: [Counters; 3],
    /// Bytes in the rows' lists of free runs, each time the rows were read.
    pub(crate) parked_pages: [u64; 2],
    /// Runs in the rows' banks.
    pub(crate) banked: Banked,
    /// Rows with a stack in any entry.
    pub(crate) rows_in_use: u64,
    /// Rows to read again: those in use, and some more.
    pub(crate) rows_again: usize,
}

/// Reads all caches, rows and counters of a yard.
pub(crate) fn collect(memory: &dyn Memory, front: &Front) -> Result<Collect, Fault> {
    let caches = front.caches(memory)?;
    let row_bytes = front.row_bytes(memory)?;
    let rows: Vec<MemoryPart> = front.rows(front.nr_rows, row_bytes).collect();
    let gate = MemoryPart { address: front.gate, bytes: front.nr_stripes * front.stripe_bytes };
    let at: Vec<(Word, u64)> =
        counters().filter_map(|word| Some((word, front.address(word)?))).collect();
    let mut group = vec![caches.classes, caches.created];
    group.retain(|part| part.bytes > 0);
    group.extend(at.iter().map(|(_, address)| MemoryPart { address: *address, bytes: 8 }));
    group.push(gate);
    let group_bytes: usize = group.iter().map(|p| p.bytes).sum();

    let mut parts = group.clone();
    for _ in 0..2 {
        parts.extend(&rows);
        parts.extend(&group);
    }
    let bytes = memory::read(memory, &parts)?;
    let step = group_bytes + rows.len() * row_bytes;
    let group_at = |i: usize| &bytes[i * step..i * step + group_bytes];
    let rows_at =
        |i: usize| Rows { bytes: &bytes[i * step + group_bytes..(i + 1) * step], row_bytes };

    let in_use: BTreeSet<usize> = rows_at(0).used().chain(rows_at(1).used()).collect();
    let cache_words = |i: usize, cache: usize| {
        CacheWords::of(front, &group_at(i)[cache * front.cache_stride..][..front.words_bytes()])
    };
    let takes = (0..caches.bytes() / front.cache_stride).map(|cache| {
        let words = [0, 1, 2].map(|i| cache_words(i, cache));
        let slot = words[0].slot();
        let tops = [0, 1].map(|i| tops(front, slot, &rows_at(i), &in_use));
        CacheReading { words, tops, held: None }
    });
    let mut takes: Vec<CacheReading> = takes.collect();
    hold(memory, front, &mut takes, |cache| words_of(front, &caches, cache))?;
    let counters = [0, 1, 2].map(|i| {
        let numbers = memory::words(&group_at(i)[caches.bytes()..]);
        let words = at.iter().map(|(word, _)| *word);
        let mut all: Counters = words.zip(numbers).collect();
        let stripes = &group_at(i)[group_bytes - gate.bytes..];
        let inside = stripes.chunks(front.stripe_bytes).map(|s| u64::from(memory::half(s, 0)));
        all.insert(Word::Gate, inside.sum());
        all
    });
    let rows = rows_at(1);
    let tops = in_use.iter().flat_map(|row| banks::SLOTS.map(|slot| rows.top(front, *row, slot)));
    let banked = banks::read(memory, front, tops)?;
    Ok(Collect {
        takes,
        counters,
        banked,
        parked_pages: [0, 1].map(|i| parked_pages(front, &rows_at(i))),
        rows_in_use: in_use.len() as u64,
        rows_again: in_use.last().map_or(0, |last| last + 1) + SPARE_ROWS,
    })
}

/// Reads one cache again, and the first `rows` rows: a row beyond them came into use after all of
/// them were read, and the next reading of all rows includes it.
pub(crate) fn again(
    memory: &dyn Memory,
    front: &Front,
    cache: usize,
    rows: usize,
) -> Result<CacheReading, Fault> {
    let rows = rows.min(front.nr_rows);
    let words = words_of(front, &front.caches(memory)?, cache);
    let slot = CacheWords::of(front, &memory::read(memory, &[words])?).slot();
    let row_bytes = front.row_bytes(memory)?;
    let entries: Vec<MemoryPart> = match slot {
        Some(slot) if rows <= FEW_ROWS => (0..rows)
            .flat_map(|r| [front.entry(r, slot), front.entry(r, slot + row::SPARE)])
            .map(|address| MemoryPart { address, bytes: row::ENTRY_BYTES })
            .collect(),
        Some(_) => front.rows(rows, row_bytes).collect(),
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
            let rows_at = Rows { bytes: rows_at(i), row_bytes };
            return tops(front, slot, &rows_at, &(0..rows).collect());
        }
        let pair = |pair: &[u8]| [0, row::ENTRY_BYTES].map(|at| front.top(memory::half(pair, at)));
        (0..).zip(rows_at(i).chunks(2 * row::ENTRY_BYTES).map(pair)).collect()
    };
    let mut take = CacheReading {
        words: [0, 1, 2].map(|i| CacheWords::of(front, &bytes[i * step..i * step + words.bytes])),
        tops: [tops_at(0), tops_at(1)],
        held: None,
    };
    hold(memory, front, std::slice::from_mut(&mut take), |_| words)?;
    Ok(take)
}

/// Where the words of a cache are.
fn words_of(front: &Front, tables: &Tables, cache: usize) -> MemoryPart {
    let address = tables.address(cache * front.cache_stride);
    MemoryPart { address, bytes: front.words_bytes() }
}

/// What was read of all rows: the same number of bytes from each.
struct Rows<'a> {
    bytes: &'a [u8],
    row_bytes: usize,
}

impl Rows<'_> {
    fn each(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks(self.row_bytes)
    }

    /// Numbers of the rows with a stack in any entry.
    fn used(&self) -> impl Iterator<Item = usize> {
        self.each().enumerate().filter(|(_, row)| has_stack(row)).map(|(number, _)| number)
    }

    /// What an entry's top says; an entry of a page that came into use just now has no stack.
    fn top(&self, front: &Front, number: usize, slot: usize) -> Top {
        let at = slot * row::ENTRY_BYTES;
        if at + row::ENTRY_BYTES > self.row_bytes {
            return Top::None;
        }
        front.top(memory::half(self.bytes, number * self.row_bytes + at))
    }
}

/// Tops in the rows of these numbers.
fn tops(front: &Front, slot: Option<usize>, rows: &Rows<'_>, numbers: &BTreeSet<usize>) -> Tops {
    let Some(slot) = slot else { return Vec::new() };
    let top = |number: usize, slot: usize| rows.top(front, number, slot);
    let pair =
        |number: &usize| (*number as u32, [top(*number, slot), top(*number, slot + row::SPARE)]);
    numbers.iter().map(pair).collect()
}

fn parked_pages(front: &Front, rows: &Rows<'_>) -> u64 {
    let mut granules = 0u64;
    for row in rows.each().filter(|row| has_stack(row)) {
        for nth in 0..row::RUN_ORDERS {
            let slot = row::FIRST_RUNS + nth;
            // Cold pages are in the slot of runs of an order that has no list then.
            let is_cold = front.word(Word::ColdRuns) == slot as u64;
            let order = if is_cold { front.page_order() as usize } else { nth };
            let entry = slot * row::ENTRY_BYTES;
            if let Top::Stack { objects, .. } = front.top(memory::half(row, entry)) {
                granules = granules.saturating_add(objects << order);
            }
        }
    }
    granules.saturating_mul(slabyard_abi::region::GRANULE as u64)
}
