//! The loop of the thread of September 2002: one object of 4 KiB, or four, allocated and freed,
//! in cycles of the time-stamp counter.
//!
//! A run is 64 turns of the loop, because the counter moves in steps of several cycles, and the
//! result is per turn; 100 timed runs follow some untimed ones. The time of the loop itself and of
//! reading the clock is the least of 100 empty runs, and is subtracted; if objects are touched,
//! the empty runs touch as many pages of their own. The result has the fastest run and the most
//! frequent time, as in the thread.

use crate::table::Table;
use crate::{OBJECT, Options, Slab, cache_of, yard_of};
use slabyard::cache::{Cache, CacheId};
use slabyard::engine::Counter;
use slabyard::engine::array_cache::{Choice, Reclaim};
use slabyard::engine::{ArrayCaches, SlowPaths};
use slabyard::platform::{PerCpu, Takes};
use slabyard_kernels::PageLists;
use std::collections::BTreeMap;

const RUNS: usize = 100;
const UNTIMED: usize = 50;
const TURNS: u64 = 64;
/// Bytes that a touch writes to: one in each line.
const LINE: usize = 64;

/// What the thread measured on an AMD Duron, without arrays: before the patch, by which free
/// slabs stayed as in 2.4, and with it.
const THEIRS: [(Reclaim, [u64; 2]); 2] =
    [(Reclaim::V2_4, [145, 662]), (Reclaim::V2_5_39, [133, 2733])];

/// One cache, called as the kernel calls its caches: no gate, no ticker.
#[derive(Clone, Copy)]
struct Ours {
    yard: &'static Slab,
    cache: &'static Cache<ArrayCaches>,
    number: usize,
    has_arrays: bool,
}

impl Ours {
    fn new(choice: Choice, lists: PageLists) -> Result<Ours, String> {
        Self::of(yard_of(choice, lists, false)?)
    }

    fn counting(choice: Choice, lists: PageLists) -> Result<Ours, String> {
        Self::of(yard_of(choice, lists, true)?)
    }

    fn of(yard: &'static Slab) -> Result<Ours, String> {
        let id: CacheId = cache_of(yard, "size-4096", OBJECT)?;
        let cache = yard.find_cache(id).ok_or("the cache is gone")?;
        let has_arrays = cache.sheaf_capacity() > 0;
        Ok(Ours { yard, cache, number: id.number(), has_arrays })
    }

    #[inline(always)]
    fn alloc(self) -> usize {
        let main = self.cache.shape().main();
        let popped = if self.has_arrays { self.yard.platform().pop(main) } else { None };
        let on = self.cache.on(&self.yard.heap);
        popped.or_else(|| self.cache.engine.alloc(on)).expect("memory")
    }

    #[inline(always)]
    fn free(self, object: usize) {
        let main = self.cache.shape().main();
        if !(self.has_arrays && self.yard.platform().push(main, object, Takes::Tagged)) {
            self.cache.engine.free(self.cache.on(&self.yard.heap), object);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn now() -> Option<u64> {
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: each x86-64 has both.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        Some(now)
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn now() -> Option<u64> {
    None
}

/// The least of the runs, and the one that came most often, with how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CycleSummary {
    least: u64,
    mode: u64,
    often: usize,
}

impl CycleSummary {
    /// Of runs, of which `loop_cost` is taken off.
    fn of(runs: &[u64], loop_cost: u64) -> CycleSummary {
        let mut by_cycles: BTreeMap<u64, usize> = BTreeMap::new();
        for run in runs {
            *by_cycles.entry(run.saturating_sub(loop_cost)).or_default() += 1;
        }
        let least = by_cycles.keys().next().copied().unwrap_or(0);
        // Of several that came as often, the least.
        let most = by_cycles.iter().rev().max_by_key(|(_, often)| **often);
        let (mode, often) = most.map_or((0, 0), |(cycles, often)| (*cycles, *often));
        CycleSummary { least, mode, often }
    }

    fn text(self) -> [String; 3] {
        [self.least.to_string(), self.mode.to_string(), self.often.to_string()]
    }
}

/// Cycles of a turn in each run.
fn runs(mut timed: impl FnMut()) -> Result<Vec<u64>, String> {
    let run = || {
        let begun = now()?;
        (0..TURNS).for_each(|_| timed());
        Some((now()? - begun) / TURNS)
    };
    told_of(run)
}

/// Cycles of what is timed alone, after each of which something follows that is not.
fn parts(mut timed: impl FnMut(), mut after: impl FnMut()) -> Result<Vec<u64>, String> {
    let mut part = || {
        let begun = now()?;
        timed();
        let ended = now()?;
        after();
        Some(ended - begun)
    };
    told_of(|| (0..TURNS).map(|_| part()).sum::<Option<u64>>().map(|sum| sum / TURNS))
}

fn told_of(mut run: impl FnMut() -> Option<u64>) -> Result<Vec<u64>, String> {
    let all: Option<Vec<u64>> = (0..UNTIMED + RUNS).map(|_| run()).collect();
    Ok(all.ok_or("no time-stamp counter here")?.split_off(UNTIMED))
}

fn touch(object: usize) {
    for line in (0..OBJECT as usize).step_by(LINE) {
        // SAFETY: within a live object of ours, or a page of the loop's own.
        unsafe { core::ptr::write_volatile((object + line) as *mut u8, 1) };
    }
}

/// So many objects are allocated, maybe touched, and freed.
fn turn(ours: Ours, objects: usize, touched: bool) -> Result<CycleSummary, String> {
    let mut held = vec![0; objects];
    let timed = || {
        held.iter_mut().for_each(|object| *object = core::hint::black_box(ours.alloc()));
        if touched {
            held.iter().for_each(|object| touch(*object));
        }
        held.iter().for_each(|object| ours.free(*object));
    };
    let all = runs(timed)?;
    let mut pages = vec![0u8; (objects + 1) * OBJECT as usize];
    let first = pages.as_mut_ptr().align_offset(OBJECT as usize) + pages.as_mut_ptr() as usize;
    let mut held = vec![0; objects];
    let empty = || {
        for (nth, object) in held.iter_mut().enumerate() {
            *object = core::hint::black_box(first + nth * OBJECT as usize);
        }
        if touched {
            held.iter().for_each(|object| touch(*object));
        }
        held.iter().for_each(|object| _ = core::hint::black_box(*object));
    };
    let loop_cost = runs(empty)?.into_iter().min().unwrap_or(0);
    drop(pages);
    Ok(CycleSummary::of(&all, loop_cost))
}

/// An allocation that begins a slab, and the end of the slab, each alone.
fn grow(ours: Ours) -> Result<[CycleSummary; 2], String> {
    let on = ours.cache.on(&ours.yard.heap);
    let discard = || ours.cache.engine.discard_empty(on);
    discard();
    let clock = parts(|| (), || ())?.into_iter().min().unwrap_or(0);
    let held = core::cell::Cell::new(0);
    let grown = parts(
        || held.set(core::hint::black_box(ours.alloc())),
        || {
            ours.free(held.get());
            discard();
        },
    )?;
    ours.free(ours.alloc());
    let ended = parts(discard, || ours.free(ours.alloc()))?;
    Ok([CycleSummary::of(&grown, clock), CycleSummary::of(&ended, clock)])
}

/// Slabs that begin in a turn, in a yard that counts and is not timed.
fn begun(ours: Ours, objects: usize) -> Result<String, String> {
    const COUNTED: u64 = 1000;
    let count = || {
        let counted = ours.yard.platform().counted(ours.number);
        counted.map(|words| words[Counter::AllocSlab as usize]).ok_or("nothing is counted")
    };
    let mut held = vec![0; objects];
    let mut turn = || {
        held.iter_mut().for_each(|object| *object = ours.alloc());
        held.iter().for_each(|object| ours.free(*object));
    };
    turn();
    let before = count()?;
    (0..COUNTED).for_each(|_| turn());
    Ok(((count()? - before) as f64 / COUNTED as f64).to_string())
}

/// The rows: without arrays, as the thread's machine, and with them.
fn choices() -> impl Iterator<Item = Choice> {
    let of = |has_arrays| Reclaim::ALL.map(|reclaim| Choice { reclaim, has_arrays });
    of(false).into_iter().chain(of(true))
}

const HEADINGS: [&str; 11] = [
    "policy",
    "arrays",
    "page lists",
    "slab, KiB",
    "objects",
    "touched",
    "slabs begun",
    "least",
    "mode",
    "runs at it",
    "theirs",
];

/// Runs all of it, and prints it.
pub fn run(options: &Options) -> Result<(), String> {
    if let Some(nth) = options.row {
        let choice = choices().nth(nth).ok_or("no such row")?;
        Table::print_rows(&rows(choice, options.page_lists)?);
        return Ok(());
    }
    let mut table = Table::new(&HEADINGS);
    for nth in 0..choices().count() {
        table.rows.extend(options.rows_of("cycles", nth)?);
    }
    if !options.json {
        println!(
            "Cycles of the time-stamp counter for one turn: objects of 4 KiB are allocated and \
             freed. {RUNS} runs of {TURNS} turns; the loop's own cost is taken off.\n\
             theirs: the thread of September 2002, an AMD Duron; growing or shrinking took \
             around 500 there.\n"
        );
    }
    table.print(options.json);
    Ok(())
}

/// The rows of one choice.
fn rows(choice: Choice, lists: PageLists) -> Result<Vec<Vec<String>>, String> {
    let (ours, counting) = (Ours::new(choice, lists)?, Ours::counting(choice, lists)?);
    let geometry = ours.cache.shape().geometry;
    let head = |objects: &str, touched: &str, begun: &str| {
        let arrays = if ours.has_arrays { "yes" } else { "no" };
        let kib = (4 << geometry.order).to_string();
        let name = choice.reclaim.name();
        [name, arrays, lists.name(), &kib, objects, touched, begun].map(str::to_owned).to_vec()
    };
    let mut rows = Vec::new();
    for (touched, word) in [(false, "no"), (true, "yes")] {
        for (nth, objects) in [1, 4].into_iter().enumerate() {
            let told = turn(ours, objects, touched)?.text();
            let theirs = THEIRS.iter().find(|(reclaim, _)| *reclaim == choice.reclaim);
            let theirs = theirs.filter(|_| !touched && !ours.has_arrays);
            let theirs = theirs.map_or("-".into(), |(_, cycles)| cycles[nth].to_string());
            let head = head(&objects.to_string(), word, &begun(counting, objects)?);
            rows.push([head, told.to_vec(), vec![theirs]].concat());
        }
    }
    if !ours.has_arrays {
        let [grown, ended] = grow(ours)?;
        for (what, told) in [("a slab begins", grown), ("a slab ends", ended)] {
            let rest = [told.text().to_vec(), vec!["-".into()]].concat();
            rows.push([head(what, "no", "1"), rest].concat());
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::{CycleSummary, Ours, begun};
    use slabyard::engine::array_cache::{Choice, Reclaim};

    #[test]
    fn slabs_begin_in_the_loop_where_the_thread_said() {
        for (reclaim, has_arrays, expected) in [
            (Reclaim::V2_4, false, ["0", "0"]),
            // One of four is kept.
            (Reclaim::V2_5_39, false, ["0", "3"]),
            (Reclaim::V2_5_45, false, ["0", "0"]),
            (Reclaim::V2_5_39, true, ["0", "0"]),
        ] {
            let choice = Choice { reclaim, has_arrays };
            let ours =
                Ours::counting(choice, slabyard_kernels::PageLists::Slabyard).expect("a yard");
            let found = [1, 4].map(|objects| begun(ours, objects).expect("counts"));
            assert_eq!(found, expected, "{choice:?}");
        }
    }

    #[test]
    fn least_and_mode_are_those_of_the_thread() {
        let runs = [vec![2745; 24], vec![2743; 72], vec![9000; 4]].concat();
        assert_eq!(
            CycleSummary::of(&runs, 10),
            CycleSummary { least: 2733, mode: 2733, often: 72 }
        );
        let tied = [vec![7; 2], vec![5; 2], vec![3; 1]].concat();
        assert_eq!(CycleSummary::of(&tied, 0), CycleSummary { least: 3, mode: 5, often: 2 });
    }
}
