//! Measures how long each operation that the contention model counts takes on this machine:
//! nanoseconds, medians over time windows. The example needs two CPUs for itself.
//!
//! `cargo run --release -p slabyard-lab --example costs`

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::thread;
use std::time::Instant;

const WINDOWS: usize = 201;
const TURNS: u64 = 20_000;

/// The median window's nanoseconds for a turn.
fn ns(mut window: impl FnMut(u64)) -> f64 {
    let mut windows: Vec<f64> = (0..WINDOWS)
        .map(|_| {
            let begun = Instant::now();
            window(TURNS);
            begun.elapsed().as_nanos() as f64 / TURNS as f64
        })
        .collect();
    windows.sort_by(f64::total_cmp);
    windows[WINDOWS / 2]
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
fn moved() -> f64 {
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
        let took = ns(|turns| (0..turns).for_each(|_| assert!(pass(0, 1))));
        stop.store(true, Relaxed);
        took / 2.0
    })
}

/// Slabs on a list, each in a cache line of its own, among so many that most are in no near cache.
fn links() -> f64 {
    const SLABS: usize = 1 << 15;
    let mut slabs = vec![[0u64; 8]; SLABS];
    let mut at = 1usize;
    ns(|turns| {
        for _ in 0..turns {
            at = (at * 5 + 12345) % SLABS;
            let next = slabs[at][0] as usize % SLABS;
            slabs[next][1] = at as u64;
            slabs[at] = [next as u64, at as u64, 1, 0, 0, 0, 0, 0];
        }
        black_box(&mut slabs);
    })
}

fn main() {
    let line = Line::default();
    let row = |what: &str, took: f64| println!("{what:<44} {took:8.1} ns");
    row("compare-exchange of a line that is here", ns(|n| (0..n).for_each(|_| exchange(&line))));
    let line = Line::default();
    row("lock and release of a line that is here", ns(|n| (0..n).for_each(|_| lock(&line))));
    row("a line's move from CPU to CPU, exchange incl.", moved());
    row("link a slab into a list", links());
}
