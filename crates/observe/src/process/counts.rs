//! Reads the slow-path counters of caches: a process that counts its slow paths has the words of
//! `slabyard_abi::stats`, one set per CPU row and cache.
//!
//! Neighbours: `slabyard_abi::stats` defines the words' layout; [`super::look`] calls this module,
//! [`super::to_snapshot`] adds up the rows. Invariants: each word only grows, independently of the
//! others, so the words of one reading may come from different moments. A row without a stack is
//! read too, because its CPU may have counted before its stacks were drained.

use super::front::Front;
use super::memory::{self, Fault, Memory, MemoryPart};
use crate::snapshot::Cache;
use crate::value::Reading;
use slabyard_abi::region::{Word, row};
use slabyard_abi::stats::{CACHE_BYTES, CACHE_WORDS, Counter, DRAINS, WordName, add_row};
use std::collections::BTreeMap;

/// Words with a meaning.
const WORDS: usize = Counter::ALL.len() + 3 * DRAINS;
/// Most bytes that are read for the plain columns, and where all attributes were requested.
const PLAIN: usize = 4 << 20;
const MOST: usize = 256 << 20;

/// The words of one cache, in each row where it counted something.
pub(crate) type Rows = Vec<(u32, [u64; CACHE_WORDS])>;

/// By slot of a cache; why nothing was read, in words.
pub(crate) type Counts = Result<BTreeMap<usize, Rows>, String>;

/// Reads what the caches with these slots counted; `None` where the yard does not count, or there
/// is too much to read for the plain columns.
pub(crate) fn read(
    memory: &dyn Memory,
    front: &Front,
    slots: &[usize],
    all: bool,
) -> Result<Option<Counts>, Fault> {
    let Some(address) = front.address(Word::Counts) else { return Ok(None) };
    let stride = |word: Word| usize::try_from(front.word(word)).unwrap_or(usize::MAX);
    let (of_row, of_cache) = (stride(Word::CountsRowBytes), stride(Word::CountsCacheBytes));
    if !(CACHE_BYTES..=1 << 16).contains(&of_cache)
        || !(of_cache * row::CACHES..=1 << 30).contains(&of_row)
    {
        return Ok(Some(Err(format!("words {of_cache} and {of_row} bytes apart cannot be"))));
    }
    let bytes = front.nr_rows.saturating_mul(slots.len()).saturating_mul(WORDS * 8);
    if bytes > PLAIN && !all {
        return Ok(None);
    }
    if bytes > MOST {
        return Ok(Some(Err(format!("{bytes} bytes of counts are more than are read"))));
    }
    let number = |slot: usize| slot.saturating_sub(row::FIRST_CACHE) / row::PAIR;
    let places = || (0..front.nr_rows).flat_map(|row| slots.iter().map(move |slot| (row, *slot)));
    let part = |(row, slot): (usize, usize)| MemoryPart {
        address: address + (row * of_row + number(slot) * of_cache) as u64,
        bytes: WORDS * 8,
    };
    let parts: Vec<MemoryPart> = places().map(part).collect();
    let bytes = match memory::read(memory, &parts) {
        Ok(bytes) => bytes,
        Err(Fault::Absent(at)) => {
            return Ok(Some(Err(format!("they lead to {at:#x}, where no memory is"))));
        }
        Err(why) => return Err(why),
    };
    let mut counts: BTreeMap<usize, Rows> = slots.iter().map(|slot| (*slot, Vec::new())).collect();
    for ((row, slot), bytes) in places().zip(bytes.chunks(WORDS * 8)) {
        if bytes.iter().any(|byte| *byte != 0) {
            let mut words = [0; CACHE_WORDS];
            words.iter_mut().zip(memory::words(bytes)).for_each(|(to, from)| *to = from);
            counts.entry(slot).or_default().push((row as u32, words));
        }
    }
    Ok(Some(Ok(counts)))
}

/// Writes down what one cache counted: each counter, and of drains what is not 0.
pub(crate) fn set(cache: &mut Cache, rows: &Rows) {
    let mut all = [0; CACHE_WORDS];
    rows.iter().for_each(|(_, words)| add_row(&mut all, words));
    for (nth, sum) in all.into_iter().enumerate().take(WORDS) {
        let is_counter = nth < Counter::ALL.len();
        if !is_counter && sum == 0 {
            continue;
        }
        let of_rows = rows.iter().filter(|(_, words)| words[nth] != 0);
        let cpus = of_rows.map(|(row, words)| (*row, words[nth].into()));
        let reading = Reading { cpus: cpus.collect(), ..Reading::from(sum) };
        cache.set(WordName(nth).to_string(), reading);
    }
}
