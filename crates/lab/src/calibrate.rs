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
    /// A line's move from CPU to CPU, its exchange included; `None` on a single CPU.
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
            moved: (cpus > 1).then(|| moved(effort)),
            link: links(effort),
        }
    }
}

impl Effort {
    /// The median window's nanoseconds for a turn.
    fn ns(self, mut window: impl FnMut(u64)) -> f64 {
        let mut windows: Vec<f64> = (0..self.windows.max(1))
            .map(|_| {
                let begun = Instant::now();
                window(self.turns);
                begun.elapsed().as_nanos() as f64 / self.turns as f64
            })
            .collect();
        windows.sort_by(f64::total_cmp);
        windows[windows.len() / 2]
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

/// A cache line that two CPUs write in turn: a turn has two moves.
fn moved(effort: Effort) -> f64 {
    let (line, stop) = (Line::default(), AtomicBool::new(false));
    let pass = |from: u64, to: u64| {
        while line.0.compare_exchange(from, to, AcqRel, Relaxed).is_err() {
            if stop.load(Relaxed) {
                return false;
            }
            spin_loop();
        }
        true
    };
    thread::scope(|scope| {
        scope.spawn(|| while pass(1, 0) {});
        let took = effort.ns(|turns| (0..turns).for_each(|_| assert!(pass(0, 1))));
        stop.store(true, Relaxed);
        took / 2.0
    })
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
