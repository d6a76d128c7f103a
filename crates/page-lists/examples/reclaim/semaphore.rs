//! Threads that all must reclaim, as CPUs of 2.5 that reclaimed zones of their own: under the one
//! semaphore of 2.4, and under each cache's own lock at the same time.
//!
//! A turn: a thread allocates objects of a cache of its own and frees them, so that slabs become
//! free, and then reclaims. The work is the same in every row of the table; only how much of it
//! may run at the same time differs.
//!
//! | way | semaphore | arrays that are drained |
//! |---|---|---|
//! | `waits` | one, and a thread sleeps until it is free | this CPU's |
//! | `tries` | one; who finds it taken goes without | this CPU's |
//! | `waits, all CPUs` | one | those of all CPUs, by a fence for each cache |
//! | `each cache` | none: each cache's list lock | this CPU's |

use crate::table::Table;
use crate::{Options, Slab, cache_of, yard_of};
use slabyard::cache::CacheId;
use slabyard::engine::Counter;
use slabyard::engine::array_cache::{Choice, Reclaim};
use slabyard::reap::{self, Turn};
use slabyard_kernels::PageLists;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Caches, as a kernel has many: threads share them where there are more threads.
const CACHES: usize = 40;
/// Objects of a turn, of so many bytes: some thirty slabs of a page.
const OBJECTS: usize = 250;
const BYTES: u32 = 512;

const WAYS: [(&str, Turn); 4] = [
    ("waits", Turn::Wait),
    ("tries", Turn::Try),
    ("waits, all CPUs", Turn::WaitAndStop),
    ("each cache", Turn::Beside),
];

/// What one thread saw, or all together.
#[derive(Clone, Copy, Debug, Default)]
struct TurnTally {
    turns: u64,
    turned_away: u64,
    slabs: u64,
    reclaim_ns: u64,
    waited_ns: u64,
}

impl TurnTally {
    fn add(self, other: TurnTally) -> TurnTally {
        TurnTally {
            turns: self.turns + other.turns,
            turned_away: self.turned_away + other.turned_away,
            slabs: self.slabs + other.slabs,
            reclaim_ns: self.reclaim_ns + other.reclaim_ns,
            waited_ns: self.waited_ns + other.waited_ns,
        }
    }
}

/// A row.
#[derive(Clone, Copy, Debug)]
struct Row {
    seen: TurnTally,
    elapsed_ns: u64,
    list_waited_ns: u64,
    /// Context switches: because a thread waited, and because its time was over.
    switches: [u64; 2],
    fences: u64,
}

/// Turns, for as long as there are to be more than so many.
fn work(yard: &Slab, id: CacheId, turn: Turn, more: impl Fn(u64) -> bool) -> TurnTally {
    let mut seen = TurnTally::default();
    let mut held = Vec::with_capacity(OBJECTS);
    while more(seen.turns) {
        held.extend((0..OBJECTS).map_while(|_| yard.alloc_from(id)));
        held.drain(..).for_each(|object| yard.free_to(id, object).expect("an object of ours"));
        let begun = Instant::now();
        match reap::reap(yard, turn) {
            Some(turned) => {
                seen.slabs += u64::from(turned.reaped.slabs);
                seen.waited_ns += turned.waited_ns;
            }
            None => seen.turned_away += 1,
        }
        seen.reclaim_ns += begun.elapsed().as_nanos() as u64;
        seen.turns += 1;
    }
    seen
}

fn switches() -> [u64; 2] {
    // SAFETY: all zeros are a `rusage`, which the call fills.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    [usage.ru_nvcsw as u64, usage.ru_nivcsw as u64]
}

fn list_waited_ns(yard: &Slab, caches: &[CacheId]) -> u64 {
    let of = |id: &CacheId| yard.platform().counted(id.number());
    let ns = Counter::ListLockWaitNs as usize;
    caches.iter().filter_map(of).map(|words| words[ns]).sum()
}

/// A yard, and caches for its threads.
fn begin() -> Result<(&'static Slab, Vec<CacheId>), String> {
    let yard =
        yard_of(Choice { reclaim: Reclaim::V2_4, has_arrays: true }, PageLists::Slabyard, true)?;
    let cache = |nth| cache_of(yard, &format!("size-{nth}"), BYTES);
    let caches: Result<Vec<CacheId>, String> = (0..CACHES).map(cache).collect();
    Ok((yard, caches?))
}

/// So many threads, one way.
fn measure(
    (yard, caches): (&Slab, &[CacheId]),
    threads: usize,
    turn: Turn,
    time: Duration,
) -> Result<Row, String> {
    let fences = || yard.platform().fences().unwrap_or(0);
    let gate = Barrier::new(threads);
    let (before, fenced, begun) = (switches(), fences(), Instant::now());
    let ends = begun + time;
    let one = |nth: usize| {
        gate.wait();
        work(yard, caches[nth % CACHES], turn, |_| Instant::now() < ends)
    };
    let seen = thread::scope(|scope| {
        let one = &one;
        let all: Vec<_> = (0..threads).map(|nth| scope.spawn(move || one(nth))).collect();
        let seen = all.into_iter().map(|thread| thread.join().expect("a thread of ours"));
        seen.fold(TurnTally::default(), TurnTally::add)
    });
    let elapsed_ns = begun.elapsed().as_nanos() as u64;
    let after = switches();
    yard.verify().ok_or("a slow path is under way")?.map_err(|what| format!("{what:?}"))?;
    Ok(Row {
        seen,
        elapsed_ns,
        list_waited_ns: list_waited_ns(yard, caches),
        switches: [after[0] - before[0], after[1] - before[1]],
        fences: fences() - fenced,
    })
}

const HEADINGS: [&str; 11] = [
    "way",
    "threads",
    "reclaims a second",
    "us each",
    "slabs each",
    "waited, %",
    "at lists, %",
    "turned away, %",
    "slept each",
    "preempted each",
    "fences each",
];

/// Runs all of it, and prints it.
pub fn run(options: &Options) -> Result<(), String> {
    if let Some(nth) = options.row {
        let threads = options.threads.get(nth / WAYS.len()).ok_or("no such row")?;
        Table::print_rows(&[row(*threads, WAYS[nth % WAYS.len()], options.ms)?]);
        return Ok(());
    }
    let mut table = Table::new(&HEADINGS);
    for nth in 0..options.threads.len() * WAYS.len() {
        table.rows.extend(options.rows_of("semaphore", nth)?);
    }
    if !options.json {
        let cpus = thread::available_parallelism().map_or(1, |n| n.get());
        println!(
            "Threads on {cpus} CPUs, each of which allocates {OBJECTS} objects of {BYTES} bytes, \
             frees them and reclaims; {} ms a row.\n\
             waited: of all threads' time, what they waited for the semaphore; at lists: for \
             caches' list locks.\n",
            options.ms
        );
    }
    table.print(options.json);
    Ok(())
}

/// One row.
fn row(threads: usize, (name, turn): (&str, Turn), ms: u64) -> Result<Vec<String>, String> {
    let (yard, caches) = begin()?;
    let row = measure((yard, &caches), threads, turn, Duration::from_millis(ms))?;
    let TurnTally { turns, turned_away, slabs, reclaim_ns, waited_ns } = row.seen;
    let each = |n: u64| n as f64 / turns.max(1) as f64;
    // Of the time of all threads together.
    let share = |ns: u64| 100.0 * ns as f64 / (threads as u64 * row.elapsed_ns) as f64;
    Ok(vec![
        name.into(),
        threads.to_string(),
        format!("{:.0}", turns as f64 * 1e9 / row.elapsed_ns as f64),
        format!("{:.1}", each(reclaim_ns) / 1e3),
        format!("{:.1}", each(slabs)),
        format!("{:.1}", share(waited_ns)),
        format!("{:.1}", share(row.list_waited_ns)),
        format!("{:.1}", 100.0 * each(turned_away)),
        format!("{:.3}", each(row.switches[0])),
        format!("{:.3}", each(row.switches[1])),
        format!("{:.2}", each(row.fences)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_reclaims() {
        let (yard, caches) = begin().expect("a yard");
        for (name, turn) in WAYS {
            // A slow machine has no turn in the first.
            let mut rows = [100, 1000, 10_000].into_iter().map(|ms| {
                let row = measure((yard, &caches), 3, turn, Duration::from_millis(ms));
                row.expect("a sound yard")
            });
            let row = rows.find(|row| row.seen.slabs > 0).expect(name);
            assert!(row.seen.turns > 0, "{name}: {row:?}");
            assert!(row.seen.turned_away == 0 || turn == Turn::Try, "{name}: {row:?}");
            assert!(row.seen.waited_ns == 0 || turn != Turn::Beside, "{name}: {row:?}");
        }
    }

    #[test]
    fn fences_run_where_all_cpus_are_drained() {
        let (yard, caches) = begin().expect("a yard");
        let fences = |turn| {
            let fences = || yard.platform().fences().expect("a platform that counts");
            let before = fences();
            work(yard, caches[0], turn, |turns| turns < 500);
            fences() - before
        };
        // A pass of the yard itself may come in between, which fences, too.
        let of_own = fences(Turn::Wait);
        let of_all = fences(Turn::WaitAndStop);
        assert!(of_own <= 4 && of_all >= 20, "{of_own}, {of_all}");
    }
}
