//! Batches of freed objects that wait for readers: arrays of addresses, filled by the CPUs that
//! free, each closed with the epoch that it waits for (the kernel's `kfree_rcu` fills a sheaf, or
//! a page of pointers, a CPU).
//!
//! ```text
//! part (by row)   open: BATCH addresses at most     closed: a ring, oldest first
//!                 +------+                          +----------------+----------------+--
//!                 | a b c|   full, or OLD_MS old -> | batch, epoch 7 | batch, epoch 9 |
//!                 +------+                          +----------------+----------------+--
//! ```
//!
//! When a batch's epoch is over, its objects are freed onto the CPU's stack like any others, so
//! that they are handed out again first: full sheaves go to the barn from there.
//!
//! Neighbours: [`super`] decides when; the memory is the sheaves' pool.
//! Invariants: the epochs in a ring do not fall; `closed` - `freed` = batches in the ring and in
//! the hands of a slow path; an object is in one batch or none.

use super::NotTaken;
use crate::engine::Engine;
use crate::pages::sheaf::NO_SHEAF;
use crate::pages::{PageHeap, Sheaf};
use crate::platform::Platform;
use crate::rcu::Epoch;
use crate::sync::{AtomicUsize, Guard, Lock, Ordering, Rank};
use crate::waiting::serve_waiting;
use crate::yard::{Place, Yard, free_inside, push};

/// Objects of a batch.
pub const BATCH: u32 = 256;
/// Bytes of objects that may wait.
pub const MOST_BYTES: usize = 32 << 20;
/// Rows so far apart share a part.
const PARTS: usize = 8;
/// Closed batches of a part.
const RING: usize = 16;
/// A batch that is not full is closed after so many milliseconds, at the next slow path.
const OLD_MS: u64 = 20;

/// A part: what some CPUs freed.
struct Part {
    /// A list of one sheaf, or of none.
    open: u32,
    opened_ms: u64,
    ring: [(u32, u64); RING],
    first: usize,
    nr: usize,
    /// Batches closed and batches freed so far.
    closed: u64,
    freed: u64,
}

impl Part {
    const NEW: Part = Part {
        open: NO_SHEAF,
        opened_ms: 0,
        ring: [(NO_SHEAF, 0); RING],
        first: 0,
        nr: 0,
        closed: 0,
        freed: 0,
    };

    /// Closes the open batch. False if the ring has no room; true, too, if there is none.
    fn close<P: Platform>(&mut self, heap: &PageHeap<P>) -> bool {
        if self.open == NO_SHEAF {
            return true;
        }
        if self.nr == RING {
            return false;
        }
        let last = &mut self.ring[(self.first + self.nr) % RING];
        *last = (self.open, heap.rcu.wanted().number());
        self.open = NO_SHEAF;
        self.nr += 1;
        self.closed += 1;
        true
    }

    fn epoch(&self) -> Option<Epoch> {
        (self.nr > 0).then(|| Epoch::of(self.ring[self.first].1))
    }

    fn take_first<P: Platform>(&mut self, heap: &PageHeap<P>) -> Option<Sheaf> {
        if !heap.rcu.is_over(self.epoch()?) {
            return None;
        }
        let (mut list, _) = self.ring[self.first];
        self.first = (self.first + 1) % RING;
        self.nr -= 1;
        heap.sheaves.unlink(&mut list)
    }
}

/// What a barrier waits for: of each part, so many batches closed, and all of them freed.
pub(super) struct Tickets([u64; PARTS]);

/// All batches of a yard.
pub(crate) struct Batches {
    parts: [Lock<Part>; PARTS],
    /// Objects that wait, and their bytes.
    objects: AtomicUsize,
    bytes: AtomicUsize,
}

impl Batches {
    pub(crate) const fn new() -> Self {
        Batches {
            parts: [const { Lock::new(Rank::Waiting, Part::NEW) }; PARTS],
            objects: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    /// In the child of a fork: nobody has a lock. Calls `f` with each object that waits, which are
    /// counted anew with their bytes.
    pub(crate) fn begin_child<P: Platform>(
        &self,
        heap: &PageHeap<P>,
        mut bytes_of: impl FnMut(usize) -> usize,
    ) {
        self.parts.iter().for_each(|part| _ = part.abandon());
        let (mut objects, mut bytes) = (0, 0);
        self.each_object(heap, |address| {
            objects += 1;
            bytes += bytes_of(address);
        });
        self.objects.store(objects, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Objects that wait.
    #[inline(always)]
    pub(crate) fn nr_waiting(&self) -> usize {
        self.objects.load(Ordering::Relaxed)
    }

    fn own<'a, P: Platform>(&'a self, p: &'a P) -> Guard<'a, Part, P> {
        self.parts[p.row_hint().unwrap_or(0) % PARTS].lock(p)
    }

    /// The parts, the caller's first.
    fn each<'a, P: Platform>(&'a self, p: &'a P) -> impl Iterator<Item = &'a Lock<Part>> + 'a {
        let own = p.row_hint().unwrap_or(0);
        (0..PARTS).map(move |nth| &self.parts[(own + nth) % PARTS])
    }

    /// The least epoch that a closed batch waits for.
    pub(super) fn first<P: Platform>(&self, p: &P) -> Option<Epoch> {
        if self.nr_waiting() == 0 {
            return None;
        }
        self.parts.iter().filter_map(|part| part.lock(p).epoch()).min()
    }

    /// What a barrier waits for that begins now.
    pub(super) fn tickets<P: Platform>(&self, p: &P) -> Tickets {
        Tickets(self.parts.each_ref().map(|part| {
            let part = part.lock(p);
            part.closed + u64::from(part.open != NO_SHEAF)
        }))
    }

    pub(super) fn are_done<P: Platform>(&self, p: &P, tickets: &Tickets) -> bool {
        self.parts.iter().zip(tickets.0).all(|(part, ticket)| part.lock(p).freed >= ticket)
    }

    /// Calls `f` with each object that waits. While no slow path is under way.
    pub(crate) fn each_object<P: Platform>(&self, heap: &PageHeap<P>, mut f: impl FnMut(usize)) {
        for part in &self.parts {
            let part = part.lock(&heap.platform);
            heap.sheaves.each_listed(part.open, &mut f);
            for nth in 0..part.nr {
                heap.sheaves.each_listed(part.ring[(part.first + nth) % RING].0, &mut f);
            }
        }
    }
}

/// Puts an object into the caller's open batch.
pub(super) fn take_for_readers<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    address: usize,
    bytes: usize,
) -> Result<(), NotTaken> {
    let batches = &yard.waiting.batches;
    // Counted first: a slow path that frees it counts it off.
    batches.objects.fetch_add(1, Ordering::Relaxed);
    let waiting = batches.bytes.fetch_add(bytes, Ordering::Relaxed);
    let mut taken = if waiting > MOST_BYTES { Err(NotTaken::Full) } else { put(yard, address) };
    if taken == Err(NotTaken::Full) {
        hurry(yard);
        if batches.bytes.load(Ordering::Relaxed) <= MOST_BYTES {
            taken = put(yard, address);
        }
    }
    if taken.is_err() {
        batches.objects.fetch_sub(1, Ordering::Relaxed);
        batches.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
    taken
}

/// Closes all batches, and frees what readers let: there are too many.
#[cold]
fn hurry<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let all = Tickets([u64::MAX; PARTS]);
    close_batches(yard, &all);
    for _ in 0..PARTS {
        serve_waiting(yard);
    }
}

fn put<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> Result<(), NotTaken> {
    let (p, sheaves) = (yard.platform(), &yard.heap.sheaves);
    let mut part = yard.waiting.batches.own(p);
    let mut batch = match sheaves.unlink(&mut part.open) {
        Some(batch) => {
            if batch.len() < BATCH {
                batch
            } else {
                sheaves.link(&mut part.open, batch);
                if !part.close(&yard.heap) {
                    return Err(NotTaken::Full);
                }
                open_batch(yard, &mut part)?
            }
        }
        None => open_batch(yard, &mut part)?,
    };
    sheaves.push(&mut batch, address);
    let is_full = batch.len() == BATCH;
    sheaves.link(&mut part.open, batch);
    if is_full {
        // Else the next free finds it full.
        part.close(&yard.heap);
    }
    Ok(())
}

fn open_batch<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    part: &mut Part,
) -> Result<Sheaf, NotTaken> {
    let p = yard.platform();
    let batch = yard.heap.sheaves.take(p, BATCH).ok_or(NotTaken::Memory)?;
    part.opened_ms = p.now_ms();
    Ok(batch)
}

/// Frees an object that waited; returns its bytes.
fn free_waited<P: Platform, E: Engine>(yard: &Yard<P, E>, address: usize) -> usize {
    let (Place::Object { bytes, .. } | Place::Large(bytes)) = yard.place_of(address) else {
        // The program freed it meanwhile, and its pages are gone.
        return 0;
    };
    let cache = yard.class_at(address).map(|class| yard.caches.get(class));
    if !cache.is_some_and(|cache| push(yard, cache, address)) {
        let _ = free_inside(yard, cache, address);
    }
    bytes
}

/// Closes the caller's open batch, if it is old.
pub(super) fn close_old_batch<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let p = yard.platform();
    if yard.waiting.batches.nr_waiting() == 0 {
        return;
    }
    let mut part = yard.waiting.batches.own(p);
    if part.open != NO_SHEAF && p.now_ms() >= part.opened_ms + OLD_MS {
        part.close(&yard.heap);
    }
}

/// Closes the open batches that are among a barrier's.
pub(super) fn close_batches<P: Platform, E: Engine>(yard: &Yard<P, E>, tickets: &Tickets) {
    for (part, ticket) in yard.waiting.batches.parts.iter().zip(tickets.0) {
        let mut part = part.lock(yard.platform());
        if part.closed < ticket {
            part.close(&yard.heap);
        }
    }
}

/// Frees the objects of a batch whose epoch is over.
pub(super) fn free_waited_batch<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    let (p, batches) = (yard.platform(), &yard.waiting.batches);
    let found = batches.each(p).find_map(|part| {
        let batch = part.lock(p).take_first(&yard.heap)?;
        Some((part, batch))
    });
    let Some((part, mut batch)) = found else { return };
    let objects = batch.len() as usize;
    let mut bytes = 0;
    while let Some(address) = yard.heap.sheaves.pop(&mut batch) {
        bytes += free_waited(yard, address);
    }
    yard.heap.sheaves.give(p, batch);
    batches.objects.fetch_sub(objects, Ordering::Relaxed);
    batches.bytes.fetch_sub(bytes, Ordering::Relaxed);
    part.lock(p).freed += 1;
}
