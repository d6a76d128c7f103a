//! The loads: the work of a contender in one timed window, and the time per object.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use slabyard::ObjectCache;
use slabyard::typed::Kept;

use super::contenders::{Node, Objects, Typed};

/// Nanoseconds an object.
fn since(begin: Instant, objects: u64) -> f64 {
    begin.elapsed().as_nanos() as f64 / objects as f64
}

/// Allocations and frees in turn.
pub fn pairs<O: Objects>(objects: &O, n: u64) -> f64 {
    let mut local = objects.local();
    let begin = Instant::now();
    run_pairs(objects, &mut local, n);
    since(begin, n)
}

#[inline(always)]
fn run_pairs<O: Objects>(objects: &O, local: &mut O::Local, n: u64) {
    for mark in 0..n {
        let held = objects.alloc(local, mark);
        let held = black_box(held);
        objects.free(local, held);
    }
}

/// Holds 1000 objects, and frees the last first.
pub fn stacks<O: Objects>(objects: &O, n: u64) -> f64 {
    let mut local = objects.local();
    let mut held = Vec::with_capacity(1000);
    let begin = Instant::now();
    for turn in 0..n / 1000 {
        held.extend((0..1000).map(|nth| objects.alloc(&mut local, turn ^ nth)));
        for nth in (0..1000).rev() {
            let object = held.pop().expect("1000 objects");
            assert_eq!(objects.mark(&local, &object), turn ^ nth);
            objects.free(&mut local, object);
        }
    }
    since(begin, n / 1000 * 1000)
}

/// As [`pairs`], in threads at once: wall time for each thread's pair, by the CPUs' number.
pub fn threads<O: Objects>(objects: &O, threads: u64, n: u64) -> f64 {
    let barrier = Barrier::new(threads as usize + 1);
    let mut begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut local = objects.local();
                barrier.wait();
                run_pairs(objects, &mut local, n / threads);
            });
        }
        begin = Instant::now();
        barrier.wait();
    });
    since(begin, n)
}

/// Half of the threads allocate, the others free what they get.
pub fn handed<O: Objects>(objects: &O, threads: u64, n: u64) -> f64 {
    const BATCH: u64 = 256;
    assert!(O::CROSSES);
    let (pairs, barrier) = (threads / 2, Barrier::new(threads as usize + 1));
    let mut begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..pairs {
            let (send, receive) = sync_channel::<Vec<O::OwnedObject>>(4);
            let (back, empty) = sync_channel::<Vec<O::OwnedObject>>(8);
            let barrier = &barrier;
            scope.spawn(move || {
                let mut local = objects.local();
                barrier.wait();
                for batch in 0..n / pairs / BATCH {
                    let mut held = empty.try_recv().unwrap_or_default();
                    held.extend((0..BATCH).map(|nth| objects.alloc(&mut local, batch ^ nth)));
                    send.send(held).expect("a receiver");
                }
            });
            scope.spawn(move || {
                let mut local = objects.local();
                barrier.wait();
                for (batch, mut held) in receive.iter().enumerate() {
                    for (nth, object) in held.drain(..).enumerate() {
                        assert_eq!(objects.mark(&local, &object), batch as u64 ^ nth as u64);
                        objects.free(&mut local, object);
                    }
                    // The producer may be gone.
                    let _ = back.try_send(held);
                }
            });
        }
        begin = Instant::now();
        barrier.wait();
    });
    since(begin, n / pairs / BATCH * BATCH * pairs)
}

/// Bulk calls of 32 objects with one owner.
pub fn batches(typed: &Typed, n: u64) -> f64 {
    let begin = Instant::now();
    for turn in 0..n / 32 {
        let mut batch = typed.0.alloc_batch::<32>(|nth| Node::new(turn ^ nth as u64));
        black_box(&mut batch);
    }
    since(begin, n / 32 * 32)
}

/// Bulk calls of 32, with a box for each object.
pub fn bulks(typed: &Typed, n: u64) -> f64 {
    let mut held = Vec::with_capacity(32);
    let begin = Instant::now();
    for turn in 0..n / 32 {
        let make = |nth| Node::new(turn ^ nth as u64);
        typed.0.try_alloc_bulk_each::<32>(make, |object| held.push(object)).expect("memory");
        typed.0.free_bulk(black_box(&mut held).drain(..));
    }
    since(begin, n / 32 * 32)
}

/// An object that takes some work to make.
pub struct Built {
    table: [u64; 64],
    uses: u64,
}

impl Built {
    pub fn new() -> Self {
        let mut table = [0; 64];
        table.iter_mut().zip(1..).for_each(|(word, n)| *word = n);
        Built { table, uses: 0 }
    }

    #[inline(always)]
    pub fn work(&mut self) {
        self.uses += 1;
        assert_eq!(black_box(&mut self.table)[3], 4);
    }
}

/// Takes objects that are kept.
pub fn kept(cache: &ObjectCache<Built, Kept>, n: u64) -> f64 {
    let begin = Instant::now();
    (0..n).for_each(|_| cache.take().work());
    since(begin, n)
}
