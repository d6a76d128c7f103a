//! A yard's state for objects and slabs that wait for readers, and the hooks by which the yard
//! calls the code that frees them: a yard without readers links none of it.
//!
//! Freed objects wait in batches: arrays of addresses, filled by the CPUs that free. Each is closed
//! with the epoch that it waits for (the kernel's `kfree_rcu` fills a sheaf or a page of pointers
//! per CPU).
//!
//! ```text
//! part (by row)   open: BATCH addresses at most     closed: a ring, oldest first
//!                 +------+                          +----------------+----------------+--
//!                 | a b c|   full, or OLD_MS old -> | batch, epoch 7 | batch, epoch 9 |
//!                 +------+                          +----------------+----------------+--
//! ```
//!
//! When a batch's epoch is over, its objects are pushed onto the CPU's stack, so that they are soon
//! allocated again; full sheaves move from there to the barn.
//!
//! Neighbours: [`crate::waiting`] fills the batches and frees their objects; the pool of sheaves
//! supplies their memory. Invariants: epochs never decrease along a ring; `closed` - `freed` =
//! batches in the ring and in transit in a slow path; an object is in at most one batch.

use crate::pages::sheaf::NO_SHEAF;
use crate::pages::{PageHeap, Sheaf};
use crate::platform::Platform;
use crate::platform::stack::Slot;
use crate::rcu::grace::Epoch;
use crate::sync::{AtomicUsize, Guard, Lock, Once, Ordering, Rank};

/// Objects of a batch.
pub const BATCH: u32 = 256;

/// Rows so far apart share a part.
pub(crate) const PARTS: usize = 8;

/// Closed batches of a part.
const RING: usize = 16;

/// A part: what some CPUs freed.
pub(crate) struct BatchShard {
    /// A list of one sheaf, or of none.
    pub(crate) open: u32,
    pub(crate) opened_ms: u64,
    pub(crate) ring: [(u32, u64); RING],
    pub(crate) first: usize,
    pub(crate) nr: usize,
    /// Batches closed and batches freed so far.
    pub(crate) closed: u64,
    pub(crate) freed: u64,
}

impl BatchShard {
    pub(crate) const NEW: BatchShard = BatchShard {
        open: NO_SHEAF,
        opened_ms: 0,
        ring: [(NO_SHEAF, 0); RING],
        first: 0,
        nr: 0,
        closed: 0,
        freed: 0,
    };

    /// Closes the open batch. False if the ring has no room; true, too, if there is none.
    pub(crate) fn close<P: Platform>(&mut self, heap: &PageHeap<P>) -> bool {
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

    pub(crate) fn epoch(&self) -> Option<Epoch> {
        (self.nr > 0).then(|| Epoch::of(self.ring[self.first].1))
    }

    pub(crate) fn take_first<P: Platform>(&mut self, heap: &PageHeap<P>) -> Option<Sheaf> {
        if !heap.rcu.is_over(self.epoch()?) {
            return None;
        }
        let (mut list, _) = self.ring[self.first];
        self.first = (self.first + 1) % RING;
        self.nr -= 1;
        heap.sheaves.unlink(&mut list)
    }
}

/// What a barrier waits for: of each part, this many batches closed, and all of them freed.
pub(crate) struct Tickets(pub(crate) [u64; PARTS]);
/// All batches of a yard.
pub(crate) struct Batches {
    pub(crate) parts: [Lock<BatchShard>; PARTS],
    /// Objects that wait, and their bytes.
    pub(crate) objects: AtomicUsize,
    pub(crate) bytes: AtomicUsize,
}

impl Batches {
    pub(crate) const fn new() -> Self {
        Batches {
            parts: [const { Lock::new(Rank::Waiting, BatchShard::NEW) }; PARTS],
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

    pub(crate) fn own<'a, P: Platform>(&'a self, p: &'a P) -> Guard<'a, BatchShard, P> {
        self.parts[p.row_hint().unwrap_or(0) % PARTS].lock(p)
    }

    /// The parts, the caller's first.
    pub(crate) fn each<'a, P: Platform>(
        &'a self,
        p: &'a P,
    ) -> impl Iterator<Item = &'a Lock<BatchShard>> + 'a {
        let own = p.row_hint().unwrap_or(0);
        (0..PARTS).map(move |nth| &self.parts[(own + nth) % PARTS])
    }

    /// The least epoch that a closed batch waits for.
    pub(crate) fn first<P: Platform>(&self, p: &P) -> Option<Epoch> {
        if self.nr_waiting() == 0 {
            return None;
        }
        self.parts.iter().filter_map(|part| part.lock(p).epoch()).min()
    }

    /// What a barrier waits for that begins now.
    pub(crate) fn tickets<P: Platform>(&self, p: &P) -> Tickets {
        Tickets(self.parts.each_ref().map(|part| {
            let part = part.lock(p);
            part.closed + u64::from(part.open != NO_SHEAF)
        }))
    }

    pub(crate) fn are_done<P: Platform>(&self, p: &P, tickets: &Tickets) -> bool {
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

/// What waits for readers in a yard of this type.
pub(crate) struct Waiting<Y> {
    pub(crate) batches: Batches,
    /// What the rest of a yard calls: set with the first reader or the first that waits, so that a
    /// yard without has no code for it.
    pub(crate) on_some: Once<Calls<Y>>,
}

/// Gets slot and address of an object.
pub(crate) type OnObject<'a> = &'a mut dyn FnMut(Slot, usize);

/// The functions that the rest of a yard calls.
pub(crate) struct Calls<Y> {
    /// At the end of a slow path.
    pub(crate) serve: fn(&Y),
    /// In the child of a fork.
    pub(crate) forget: fn(&Y),
    /// For `verify`, and the next.
    pub(crate) each_object: fn(&Y, OnObject<'_>),
    pub(crate) count_held: fn(&Y) -> u64,
}

impl<Y> Waiting<Y> {
    pub(crate) const fn new() -> Self {
        Waiting { batches: Batches::new(), on_some: Once::new() }
    }
}
