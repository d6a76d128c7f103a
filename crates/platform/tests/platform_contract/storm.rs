//! Several threads push, pop and exchange, one stops and drains: no object may be lost or have two
//! owners.

use crate::checks::{array_of, arrays, element, stack};
use slabyard_platform::stack::STOPPED;
use slabyard_platform::{Platform, Slot, Takes, stop, stop_idle};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const SLOT: Slot = Slot(3);
/// Objects in a stack at most.
const CAPACITY: u32 = 3;
/// Objects that each worker begins with.
const SHARE: usize = 6;

/// One storm.
pub struct Storm {
    seed: u64,
    /// True while an object is in a hand and not in a stack. Objects are
    /// numbers from 1.
    held: Vec<AtomicBool>,
    /// Objects that the stopper took from the stacks. No call of the platform
    /// is made with it locked, so on the modelled machine it is never waited for.
    drained: Mutex<Vec<usize>>,
    /// What each worker ended with.
    left: Mutex<Vec<usize>>,
    /// All arrays.
    arrays: Vec<usize>,
    /// Empty arrays for each worker.
    spares: Vec<Mutex<Vec<usize>>>,
}

/// Small generator (xorshift) of a worker's choices.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % n
    }
}

impl Storm {
    /// A storm of `workers` on fresh stacks.
    pub fn new<P: Platform>(p: &P, workers: usize, seed: u64) -> Self {
        // Every row can keep an array; two are left for each worker.
        let each = 2 + p.rows().len().div_ceil(workers);
        let mut all = arrays(p, each * workers, CAPACITY as usize);
        let arrays = all.clone();
        let spares = (0..workers).map(|_| Mutex::new(all.split_off(all.len() - each))).collect();
        Storm {
            seed,
            held: (0..=workers * SHARE).map(|_| AtomicBool::new(true)).collect(),
            drained: Mutex::new(Vec::new()),
            left: Mutex::new(Vec::new()),
            arrays,
            spares,
        }
    }

    /// A worker: goes on while `more` says so, which gets the number of the turn.
    pub fn work<P: Platform>(&self, p: &P, worker: usize, more: &mut dyn FnMut(u64) -> bool) {
        let mut random = Random(self.seed << 8 | (worker as u64 + 1) << 1 | 1);
        let mut mine: Vec<usize> = (0..SHARE).map(|i| worker * SHARE + i + 1).collect();
        let mut spares = std::mem::take(&mut *self.spares[worker].lock().unwrap());
        for round in 0.. {
            if !more(round) {
                break;
            }
            match random.below(8) {
                0 => self.exchange(p, &mut mine, &mut spares, random.below(3) as usize),
                1..=3 => self.push(p, &mut mine, &mut spares),
                4..=6 => mine.extend(p.pop(SLOT).inspect(|object| self.take(*object))),
                _ => mine.append(&mut self.drained.lock().unwrap()),
            }
        }
        self.left.lock().unwrap().append(&mut mine);
    }

    /// The stopper: takes what stacks hold, one row or all rows at a time. Where
    /// it cannot stop it asks; where it is refused to, stacks are as they were.
    pub fn stop<P: Platform>(&self, p: &P, more: &mut dyn FnMut(u64) -> bool) {
        let nr_rows = p.rows().len();
        for round in 0.. {
            if !more(round) {
                break;
            }
            let row = round as usize % nr_rows;
            if p.can_stop() {
                let rows = if round % 4 == 3 { 0..nr_rows } else { row..row + 1 };
                self.drain(p, rows, round % 3 == 2);
            } else {
                p.rows().entry(row, SLOT).ask();
                p.step();
            }
        }
    }

    fn drain<P: Platform>(&self, p: &P, rows: std::ops::Range<usize>, idle: bool) {
        let mut stops: Vec<_> = rows.map(|row| (row, SLOT, 0)).collect();
        let kept = RefCell::new(BTreeMap::new());
        let keep = |row, _, top| _ = kept.borrow_mut().insert(row, top);
        if idle {
            stop_idle(p, &mut stops, &keep);
        } else if !stop(p, &mut stops, &keep) {
            assert!(kept.into_inner().into_values().all(|top| top.is_none()), "none is marked");
            return;
        }
        for (row, _, top) in &stops {
            let marked = (*top != STOPPED).then_some(*top);
            assert_eq!(kept.borrow()[row], marked, "what was kept of row {row}");
        }
        for (row, slot, top) in stops.into_iter().filter(|(.., top)| *top != STOPPED) {
            let mut taken = self.contents(p, top);
            p.step();
            p.rows().entry(row, slot).start(top - taken.len() as u32);
            self.drained.lock().unwrap().append(&mut taken);
        }
    }

    fn push<P: Platform>(&self, p: &P, mine: &mut Vec<usize>, spares: &mut Vec<usize>) {
        let Some(object) = mine.pop() else { return };
        self.give(object);
        if !p.push(SLOT, object, Takes::Each) {
            self.take(object);
            mine.push(object);
            p.enter();
            // Full, or asked, or no stack yet.
            self.exchange(p, mine, spares, 0);
        }
    }

    fn exchange<P: Platform>(
        &self,
        p: &P,
        mine: &mut Vec<usize>,
        spares: &mut Vec<usize>,
        count: usize,
    ) {
        let Some(objects) = spares.pop() else { return };
        let count = count.min(mine.len());
        for i in 0..count {
            let object = mine.pop().expect("counted");
            element(objects, i).store(object, Ordering::Relaxed);
            self.give(object);
        }
        let new = stack(p, objects, count as u32, CAPACITY);
        // Stopped: what was to be put there is ours again.
        let old = p.exchange(SLOT, new).unwrap_or(new);
        if !old.is_none() {
            mine.append(&mut self.contents(p, old.top));
            spares.push(array_of(p, old.top, &self.arrays).0);
        }
    }

    /// Takes the objects of the stack with this top.
    fn contents<P: Platform>(&self, p: &P, top: u32) -> Vec<usize> {
        assert_ne!(top, STOPPED, "no other thread stops");
        if top == 0 {
            return Vec::new();
        }
        let (objects, count) = array_of(p, top, &self.arrays);
        assert!(count <= CAPACITY as usize, "{count} objects in a stack");
        let taken: Vec<_> =
            (0..count).map(|i| element(objects, i).load(Ordering::Relaxed)).collect();
        for object in &taken {
            self.take(*object);
        }
        taken
    }

    fn take(&self, object: usize) {
        assert!(!self.held[object].swap(true, Ordering::AcqRel), "object {object} is doubled");
    }

    fn give(&self, object: usize) {
        assert!(self.held[object].swap(false, Ordering::AcqRel), "object {object} is not held");
    }

    /// After the storm: every object is somewhere, once.
    pub fn check<P: Platform>(&self, p: &P) {
        let mut all = std::mem::take(&mut *self.left.lock().unwrap());
        all.append(&mut self.drained.lock().unwrap());
        for row in 0..p.rows().len() {
            all.append(&mut self.contents(p, p.rows().entry(row, SLOT).top()));
        }
        all.sort_unstable();
        assert!(all.iter().copied().eq(1..self.held.len()), "lost or doubled: {all:?}");
    }
}
