//! One look at a yard (all reads for one snapshot): reads the yard's words, then its slabs, then
//! the words again.
//!
//! The numbers of a cache are ranges that cover both readings; a number that did not change is
//! exact. If `live` changed between the readings, it may have moved further unseen: its range is
//! made three times as wide as the observed change.
//!
//! Neighbours: [`super::collect`] reads the words, [`super::judge`] judges them, [`super::walk`]
//! walks over the slabs; [`super::to_snapshot`] turns a look into a snapshot.

use super::aliases::{self, Aliases};
use super::banks::Banked;
use super::collect::{self, CacheReading, Counters};
use super::counts::{self, Counts};
use super::front::Front;
use super::judge::{self, CacheContents};
use super::memory::{Fault, Memory};
use super::pressure::{self, Pressure};
use super::span::Span;
use super::walk::{self, Shape, Walk};
use crate::want::ReadScope;
use slabyard_abi::region::{CacheWord, Word, descriptor};
use std::time::{Duration, Instant};

/// A cache that changes is read again at least and at most this many times. All of them have so
/// long; then the rest are read the least number of times, unless that takes too long.
const LEAST_TRIES: u32 = 10;
const MOST_TRIES: u32 = 100;
const PATIENCE: Duration = Duration::from_millis(20);
const MOST_LATE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_micros(200);
/// Reads of a cache that moves without a slow path.
const MORE: u32 = 3;

/// Most bytes of descriptors that are read for the plain columns, and where each slab was
/// requested.
const PLAIN_DESCRIPTORS: u64 = 256 << 20;
const MOST_DESCRIPTORS: u64 = 4 << 30;

/// A yard at one moment.
pub(crate) struct YardView {
    /// In the order of their numbers.
    pub(crate) caches: Vec<CacheContents>,
    counters: [Counters; 3],
    parked_pages: [u64; 2],
    banked: Banked,
    pub(crate) rows_in_use: u64,
}

/// A yard during a look.
pub(crate) struct YardLook {
    pub(crate) begin: YardView,
    pub(crate) end: YardView,
    /// How full the slabs are, or why that was not looked at.
    pub(crate) walk: Result<Walk, String>,
    /// What caches counted, where the yard counts.
    pub(crate) counts: Option<Counts>,
    /// What the process counts of memory pressure.
    pub(crate) pressure: Pressure,
    /// Further names of its caches.
    pub(crate) aliases: Aliases,
}

/// Reads all caches twice, and between the two how full their slabs are.
pub(crate) fn look(memory: &dyn Memory, front: &Front, want: ReadScope) -> Result<YardLook, Fault> {
    let begin = sight(memory, front)?;
    let walk = slabs(memory, front, &begin, want)?;
    let slots: Vec<usize> = begin.caches.iter().filter_map(|cache| cache.words.slot()).collect();
    let counts = counts::read(memory, front, &slots, want.all)?;
    let end = sight(memory, front)?;
    let pressure = pressure::read(memory, front)?;
    let aliases = aliases::read(memory, front)?;
    Ok(YardLook { begin, end, walk, counts, pressure, aliases })
}

fn sight(memory: &dyn Memory, front: &Front) -> Result<YardView, Fault> {
    let seen = collect::collect(memory, front)?;
    let end = Instant::now() + PATIENCE;
    let mut caches = Vec::with_capacity(seen.takes.len());
    for (number, take) in seen.takes.iter().enumerate() {
        let first = judge::judge(take);
        let moves = first.words.slot().is_some() && first.doubt() > (false, false, 0);
        caches.push(match moves {
            true => {
                let again = || collect::again(memory, front, number, seen.rows_again);
                retry(&again, first, end)?
            }
            false => first,
        });
    }
    Ok(YardView {
        caches,
        counters: seen.counters,
        parked_pages: seen.parked_pages,
        banked: seen.banked,
        rows_in_use: seen.rows_in_use,
    })
}

/// Reads a cache that moves again, until no slow path is under way; then some times
/// more, because it moves between the reads, too.
fn retry(
    again: &dyn Fn() -> Result<CacheReading, Fault>,
    first: CacheContents,
    end: Instant,
) -> Result<CacheContents, Fault> {
    let mut best = first;
    let mut seen = best.seen;
    let (mut tries, mut more) = (0, MORE);
    while tries < MOST_TRIES && more > 0 {
        let late = Instant::now().saturating_duration_since(end);
        if late > Duration::ZERO && (tries >= LEAST_TRIES || late > MOST_LATE) {
            break;
        }
        tries += 1;
        if !best.quiet && tries > LEAST_TRIES {
            // A thread inside of a slow path may want the CPU that we are on.
            std::thread::sleep(PAUSE);
        }
        let next = judge::judge(&again()?);
        more -= u32::from(next.quiet);
        seen = hull(seen, next.seen);
        if next.doubt() <= best.doubt() {
            best = next;
        }
    }
    best.seen = seen;
    Ok(best)
}

/// Both, where both are known.
fn hull(a: Option<Span>, b: Option<Span>) -> Option<Span> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.hull(b)),
        (one, other) => one.or(other),
    }
}

fn slabs(
    memory: &dyn Memory,
    front: &Front,
    begin: &YardView,
    want: ReadScope,
) -> Result<Result<Walk, String>, Fault> {
    let Some(top) = begin.counter(Word::TopAt) else {
        return Ok(Err("the yard does not tell how much is committed".into()));
    };
    let top = top.high.min(front.granules);
    let bytes = top.saturating_mul(descriptor::BYTES as u64);
    let most = if want.slabs { MOST_DESCRIPTORS } else { PLAIN_DESCRIPTORS };
    if bytes > most {
        return Ok(Err(format!(
            "{bytes} bytes of descriptors are more than the {most} that are read for it"
        )));
    }
    let shapes: Vec<Shape> = begin.caches.iter().filter_map(shape).collect();
    match walk::walk(memory, front, top, &shapes, want.slabs) {
        Ok(walk) => Ok(Ok(walk)),
        Err(Fault::Absent(at)) => Ok(Err(format!("descriptors cannot be read at {at:#x}"))),
        Err(why) => Err(why),
    }
}

fn shape(cache: &CacheContents) -> Option<Shape> {
    Some(Shape {
        slot: cache.words.slot()?,
        objects: u32::try_from(cache.words.get(CacheWord::Objects)).ok()?,
        order: u32::try_from(cache.words.get(CacheWord::Order)).ok()?,
    })
}

impl YardView {
    /// A counter of the yard; `None` where it does not tell it.
    fn counter(&self, word: Word) -> Option<Span> {
        let told = self.counters.iter().map(|c| c.get(&word).copied().map(Span::exact));
        told.reduce(|a, b| Some(a?.hull(b?)))?
    }
}

impl YardLook {
    /// A counter of the yard during the look.
    pub(crate) fn counter(&self, word: Word) -> Option<Span> {
        Some(self.begin.counter(word)?.hull(self.end.counter(word)?))
    }

    /// Bytes in the rows' lists of free runs during the look.
    pub(crate) fn parked_pages(&self) -> Span {
        let all = self.begin.parked_pages.iter().chain(&self.end.parked_pages);
        all.map(|n| Span::exact(*n)).reduce(Span::hull).unwrap_or_default()
    }

    /// Runs in banks during the look, and their bytes.
    pub(crate) fn banked(&self) -> [Span; 2] {
        let (begin, end) = (self.begin.banked, self.end.banked);
        let span = |begin, end| Span::exact(begin).hull(Span::exact(end));
        [span(begin.runs, end.runs), span(begin.bytes, end.bytes)]
    }

    /// True if no slow path was under way at any time, and none began.
    pub(crate) fn quiet(&self) -> bool {
        let counters = self.begin.counters.iter().chain(&self.end.counters);
        let stand = counters.clone().all(|c| *c == self.begin.counters[0]);
        let outside = self.counter(Word::Gate) == Some(Span::exact(0));
        stand && outside && (0..self.begin.caches.len()).all(|cache| self.still(cache))
    }

    /// Live objects of a cache at any time during the look.
    pub(crate) fn live(&self, cache: usize) -> Span {
        let (Some(begin), Some(end)) = (self.begin.caches.get(cache), self.end.caches.get(cache))
        else {
            return Span::default();
        };
        let told = begin.live.hull(end.live);
        match hull(begin.seen, end.seen) {
            Some(seen) => {
                let moved = seen.high - seen.low;
                let most = begin.out.high.max(end.out.high);
                told.hull(seen.widened(moved).at_most(most))
            }
            None => told,
        }
    }

    /// True if a cache's slabs were the same during the whole look.
    pub(crate) fn still(&self, cache: usize) -> bool {
        match (self.begin.caches.get(cache), self.end.caches.get(cache)) {
            (Some(begin), Some(end)) => begin.quiet && end.quiet && begin.words == end.words,
            _ => false,
        }
    }
}
