//! The close checks for misuse. The fast path only compares a freed object with the one on top
//! of its stack; these checks look further, at two times:
//!
//! * The first frees of a process take the slow path ([`Yard::check_frees`]), which compares
//!   each with its slab's bitmap and with all parked objects. Later slow paths make no such
//!   check: it would cost too many instructions.
//! * When the process ends, [`Yard::check_parked`] looks through the parked objects once.
//!
//! They write nothing and stop no stack. That is exact for an object that the caller owns: the
//! caller owned it already when the check read the top of a stack, so no element below that top
//! held it then, and none gets it before it is freed. (Pairs with each commit of a top: an
//! owner got its object after the pop.) Of objects that the caller does not own, as at the end,
//! a look while other threads move them is a guess, and [`crate::verify`] decides.
//!
//! Neighbour: [`crate::yard::reclaim::countdown`] sends frees here, and marks the rows on which frees
//! were made.

use crate::cache::slots::slot_of;
use crate::engine::{Engine, Shape};
use crate::pages::Cause;
use crate::platform::Platform;
use crate::slab::{Object, Word};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::yard::slow_path::RUN_CALLS;
use crate::yard::{Place, Yard};

/// Bitmap words that the check at the end keeps of one cache: objects of further words are not
/// checked. A small process parks some 64 objects of a size, in 2 to 4 words.
const WORDS: usize = 32;

/// Objects of a stack that this check looks at, where neighbours count as one.
const LOOKS: usize = 16;

/// Rows on which frees were made, a bit each; rows this far apart share one.
const ROWS: usize = 256;

/// The state of the close checks.
pub(crate) struct Checks {
    /// How many more frees are checked closely.
    left: AtomicU32,
    /// 1: the program freed a block that was made a mapping to fault after its free.
    block_freed: AtomicU32,
    rows: [AtomicU64; ROWS / 64],
}

impl Checks {
    pub(crate) const fn new() -> Self {
        Checks {
            left: AtomicU32::new(0),
            block_freed: AtomicU32::new(0),
            rows: [const { AtomicU64::new(0) }; ROWS / 64],
        }
    }

    /// Records that frees were made on a row.
    #[inline]
    pub(crate) fn mark(&self, row: usize) {
        let (word, bit) = (&self.rows[row % ROWS / 64], 1 << (row % 64));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// True if `f` is true of any of the first `nr` rows on which frees were made. (Plain loops:
    /// iterators took a third of the time of the check at the end.)
    #[inline]
    fn any_row(&self, nr: usize, mut f: impl FnMut(usize) -> bool) -> bool {
        for (i, word) in self.rows.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                let mut row = 64 * i + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                while row < nr {
                    if f(row) {
                        return true;
                    }
                    row += ROWS;
                }
            }
        }
        false
    }

    /// True while frees are checked closely.
    #[inline]
    pub(crate) fn are_close(&self) -> bool {
        self.left.load(Ordering::Relaxed) != 0
    }

    /// Records that a mapping which could have been a run was freed: such blocks come and go.
    pub(crate) fn block_freed(&self) {
        self.block_freed.store(1, Ordering::Relaxed);
    }

    /// True while blocks are made mappings, to fault if they are used after their free.
    pub(crate) fn are_blocks_to_fault(&self) -> bool {
        self.are_close() && self.block_freed.load(Ordering::Relaxed) == 0
    }

    /// Counts one checked free; `u32::MAX` stands for all.
    fn take(&self) {
        let left = self.left.load(Ordering::Relaxed);
        if left != u32::MAX && left != 0 {
            // Two threads may count the same one: one check more than asked for.
            self.left.store(left - 1, Ordering::Relaxed);
        }
    }
}

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Makes the next so many frees take the slow path and its close checks; `u32::MAX`: all.
    pub fn check_frees(&self, frees: u32) {
        self.checks.left.store(frees, Ordering::Relaxed);
    }

    /// Checks an object closely before its free, in a slow path. `Ok(false)`: it was free
    /// already, which the check has reported.
    ///
    /// # Errors
    /// Where the address lies, if it is not the begin of an object.
    #[cold]
    pub(crate) fn check_free(&self, class: usize, address: usize) -> Result<bool, Place> {
        let shape = self.caches.get(class).shape();
        if !self.heap.begins_object(&shape.geometry, address) {
            return Err(self.place_of(address));
        }
        if let Some(row) = self.platform().row_hint() {
            self.checks.mark(row);
        }
        self.checks.take();
        let twice = self.is_free(class, address);
        if twice {
            self.heap.misuse(Cause::DoubleFree, address, shape.slot);
        }
        Ok(!twice)
    }

    /// True if frees are checked closely, and the object at an address was freed.
    #[inline]
    pub fn looks_freed(&self, address: usize) -> bool {
        self.checks.are_close() && self.looks_freed_closely(address)
    }

    #[cold]
    fn looks_freed_closely(&self, address: usize) -> bool {
        // In a slow path: while the gate is closed, `verify` uses the slabs' bits as marks.
        self.class_at(address).is_some_and(|class| {
            self.slow_path(RUN_CALLS).is_some_and(|_slow_path| self.is_free(class, address))
        })
    }

    /// True if an object is free in its slab, or parked anywhere.
    #[cold]
    fn is_free(&self, class: usize, address: usize) -> bool {
        let (g, cache) = (&self.heap, self.caches.get(class));
        let shape = cache.shape();
        match g.resolve(&shape.geometry, shape.slot, address) {
            Err(_) => return false,
            Ok(Object { slab, index }) => {
                if g.is_free(slab, index) {
                    return true;
                }
            }
        }
        if self.any_stack(class, |objects| holds(objects, address)) {
            return true;
        }
        let mut found = false;
        cache.engine.each_parked(cache.on(g), |parked| found |= parked == address);
        found
    }

    /// True if `f` is true of the objects in any of a cache's stacks, on rows on which frees
    /// were made.
    #[inline]
    fn any_stack(&self, class: usize, mut f: impl FnMut(&[AtomicUsize]) -> bool) -> bool {
        let p = self.platform();
        let cache = self.caches.get(class);
        let slots = [cache.shape().main(), cache.shape().spare()];
        let slots = if cache.engine.has_objects_in_spare() { &slots[..] } else { &slots[..1] };
        self.checks.any_row(p.rows().len(), |row| {
            slots.iter().any(|&slot| {
                let entry = p.rows().entry(row, slot);
                !entry.is_none() && f(self.heap.sheaves.objects_of(entry.top()))
            })
        })
    }

    /// Looks through the parked objects at the process's end. Reports the first that is parked
    /// twice, or free in its slab and parked, or no object.
    pub fn check_parked(&self) {
        let mut seen = Seen { words: [(u32::MAX, Word::FIRST, 0); WORDS], nr: 0 };
        // Other threads may move objects meanwhile: a real fault is found each time.
        let mut is_odd = |class| (0..3).all(|_| self.is_odd(class, &mut seen));
        if !self.caches.used.caches().any(&mut is_odd) {
            return;
        }
        if let Some(Err(fault)) = self.verify()
            && let Some(cause) = fault.misuse()
            && let Some(class) = self.class_at(fault.at)
        {
            let slot = slot_of(class).0;
            self.heap.misuse(cause, fault.at, slot);
        }
    }

    /// True if a class's parked objects look damaged.
    fn is_odd(&self, class: usize, seen: &mut Seen) -> bool {
        seen.nr = 0;
        let cache = self.caches.get(class);
        let shape = cache.shape();
        if self.any_stack(class, |objects| self.is_odd_in(shape, seen, objects)) {
            return true;
        }
        let mut is_odd = false;
        if cache.engine.parks_few_on_node() {
            cache.engine.each_parked(cache.on(&self.heap), |address| {
                is_odd |= self.is_odd_in(shape, seen, &[AtomicUsize::new(address)]);
            });
        }
        is_odd
    }

    fn is_odd_in(&self, shape: &Shape, seen: &mut Seen, objects: &[AtomicUsize]) -> bool {
        let (g, geometry) = (&self.heap, &shape.geometry);
        // From the top on: the last freed object first.
        let mut left = objects;
        for _ in 0..LOOKS {
            let Some((top, others)) = left.split_last() else { break };
            let address = top.load(Ordering::Relaxed);
            let Ok(Object { slab, index }) = g.resolve(geometry, shape.slot, address) else {
                return true;
            };
            let (word, bit) = Word::of(index);
            let Some(bits) = seen.bits(slab, word, || g.free_bits(slab, word)) else {
                return false;
            };
            let last = (geometry.objects - word.index_of(0)).min(Word::OBJECTS) - 1;
            let (run, more) =
                run_from(others, address, geometry.size as usize, bit.trailing_zeros(), last);
            if *bits & (bit | more) != 0 {
                return true;
            }
            *bits |= bit | more;
            left = &others[..others.len() - run];
        }
        false
    }
}

/// How many of the last objects lie side by side, each next to the one before, up or down,
/// from the one at an address, whose bit is `nth` in a word whose last object is `last`; and
/// their bits. A program that frees a structure in the order in which it made it leaves such
/// runs.
#[inline]
fn run_from(
    objects: &[AtomicUsize],
    address: usize,
    size: usize,
    nth: u32,
    last: u32,
) -> (usize, u64) {
    let Some(next) = objects.last() else { return (0, 0) };
    let step = next.load(Ordering::Relaxed).wrapping_sub(address);
    let bits = |run: usize| (1u64 << run) - 1;
    if step == size.wrapping_neg() {
        let run = run_length(objects, address, step, nth as usize);
        (run, bits(run) << (nth - run as u32))
    } else if step == size {
        let run = run_length(objects, address, step, (last - nth) as usize);
        (run, bits(run) << nth << 1)
    } else {
        (0, 0)
    }
}

/// How many of the last objects, at most so many, lie `step` bytes from the one before each,
/// and the first of them from `address`.
#[inline]
fn run_length(objects: &[AtomicUsize], address: usize, step: usize, most: usize) -> usize {
    let objects = &objects[objects.len().saturating_sub(most)..];
    let (mut left, mut expected) = (objects, address.wrapping_add(step));
    while let Some((top, others)) = left.split_last()
        && top.load(Ordering::Relaxed) == expected
    {
        expected = expected.wrapping_add(step);
        left = others;
    }
    objects.len() - left.len()
}

/// Words of bitmaps, with a bit for each object that is free or was seen.
struct Seen {
    words: [(u32, Word, u64); WORDS],
    nr: usize,
}

impl Seen {
    /// The bits of a word, at first those that `read` returns; `None` if there is no room for
    /// another word.
    fn bits(&mut self, slab: u32, word: Word, read: impl FnOnce() -> u64) -> Option<&mut u64> {
        // Most often it is the last one.
        let known = self.words[..self.nr].iter().rposition(|w| (w.0, w.1) == (slab, word));
        let at = match known {
            Some(at) => at,
            None if self.nr == WORDS => return None,
            None => {
                self.words[self.nr] = (slab, word, read());
                self.nr += 1;
                self.nr - 1
            }
        };
        Some(&mut self.words[at].2)
    }
}

fn holds(objects: &[AtomicUsize], address: usize) -> bool {
    objects.iter().any(|object| object.load(Ordering::Relaxed) == address)
}
