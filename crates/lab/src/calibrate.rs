//! How long this machine takes for the operations that the contention model counts.
//!
//! Neighbours: [`crate::replay::contend`] has the table of durations, whose figures are from the example
//! `costs`, which prints these. Invariant: a duration is the median over windows of time, because other
//! programs run meanwhile.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;
use std::time::Instant;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Windows, of which the median counts.
    pub windows: usize,
    /// Operations of each.
    pub turns: u64,
}

/// Nanoseconds of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// A compare-exchange of a line that is here.
    pub exchange: f64,
    /// Lock and release of a line that is here.
    pub lock: f64,
    /// A line's move from CPU to CPU, its exchange included; `None` on a single CPU, and where
    /// others had the second one all the time.
    pub moved: Option<f64>,
    /// Linking a slab into a list.
    pub link: f64,
}

impl Measured {
    /// Measures on this machine; two CPUs should be idle.
    #[must_use]
    pub fn here(effort: Effort) -> Measured {
        let (line, another) = (Line::default(), Line::default());
        let cpus = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Measured {
            exchange: effort.ns(|n| (0..n).for_each(|_| exchange(&line))),
            lock: effort.ns(|n| (0..n).for_each(|_| lock(&another))),
            moved: (cpus > 1).then(|| moved(effort)).flatten(),
            link: links(effort),
        }
    }
}

impl Effort {
    /// The median window's nanoseconds for a turn.
    fn ns(self, mut window: impl FnMut(u64)) -> f64 {
        let window = |_| {
            let begun = Instant::now();
            window(self.turns);
            begun.elapsed().as_nanos() as f64 / self.turns as f64
        };
        median((0..self.windows.max(1)).map(window).collect()).expect("a window at least")
    }
}

#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

fn exchange(line: &Line) {
    let old = line.0.load(Relaxed);
    let _fails = black_box(line.0.compare_exchange(old, old + 1, AcqRel, Relaxed));
}

fn lock(line: &Line) {
    while line.0.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
        spin_loop();
    }
    black_box(line);
    line.0.store(0, Release);
}

/// A cache line that two CPUs write in turn: a turn has two moves. A window in which the other
/// thread has no CPU is not counted: on a busy machine each of its turns would take a time slice.
fn moved(effort: Effort) -> Option<f64> {
    // Tries; they take some hundred microseconds, and a move takes a few.
    const PATIENCE: u32 = 1 << 14;
    let (line, stop) = (Line::default(), AtomicBool::new(false));
    let pass = |from: u64, to: u64| {
        let passes = || line.0.compare_exchange(from, to, AcqRel, Relaxed).is_ok();
        (0..PATIENCE).any(|_| {
            let passed = passes();
            if !passed {
                spin_loop();
            }
            passed
        })
    };
    let window = || {
        let begun = Instant::now();
        let whole = (0..effort.turns).all(|_| pass(0, 1));
        if !whole {
            thread::yield_now();
        }
        whole.then(|| begun.elapsed().as_nanos() as f64 / effort.turns as f64)
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                if !pass(1, 0) {
                    thread::yield_now();
                }
            }
        });
        let took = median((0..effort.windows.max(1)).filter_map(|_| window()).collect());
        stop.store(true, Relaxed);
        took.map(|ns| ns / 2.0)
    })
}

fn median(mut windows: Vec<f64>) -> Option<f64> {
    windows.sort_by(f64::total_cmp);
    windows.get(windows.len() / 2).copied()
}

/// Slabs on a list, each in a cache line of its own, among so many that most are in no near cache.
fn links(effort: Effort) -> f64 {
    const SLABS: usize = 1 << 15;
    let mut slabs = vec![[0u64; 8]; SLABS];
    let mut at = 1usize;
    effort.ns(|turns| {
        for _ in 0..turns {
            at = (at * 5 + 12345) % SLABS;
            let next = slabs[at][0] as usize % SLABS;
            slabs[next][1] = at as u64;
            slabs[at] = [next as u64, at as u64, 1, 0, 0, 0, 0, 0];
        }
        black_box(&mut slabs);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

    /// The line's second CPU is not to be had where both threads are held on one; with a time slice
    /// for each turn it took minutes.
    #[test]
    fn a_move_between_threads_on_one_cpu_is_no_measurement() {
        let measured = thread::spawn(|| {
            let mut one = CpuSet::new();
            one.set(sched_getcpu());
            sched_setaffinity(None, &one).expect("a CPU that this thread is on");
            moved(Effort { windows: 21, turns: 4000 })
        });
        assert_eq!(measured.join().expect("a result"), None);
    }
}
