//! RCU for callers: read-side sections, waiting for readers, and frees after a grace period (the
//! kernel's `rcu_read_lock`, `synchronize_rcu`, `kfree_rcu`).
//!
//! Neighbours: [`crate::rcu`] implements readers and grace periods; [`crate::waiting`] keeps the
//! waiting objects and slabs. Invariant: no thread waits for readers while it holds a lock or is in
//! a slow path: a reader may fork, or wait for a lock, in its section.

use crate::cache::CacheId;
use crate::engine::Engine;
use crate::pages::PageHeap;
use crate::platform::Platform;
use crate::rcu::grace::Epoch;
use crate::slow_path::enter_slow_path;
use crate::sync::AtomicU32;
use crate::waiting::batches::{close_batches, serve_waiting, take_for_readers};
use crate::waiting::{NotTaken, begin_waiting, holds_slabs};
use crate::yard::depth::{LOOK_CALLS, RUN_CALLS, is_inside};
use crate::yard::{AddressKind, Yard};

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Opens a section: until it ends, no grace period ends that begins from now on. Sections
    /// nest, up to 4,000 deep; a signal handler may have its own. It takes no lock, and allocates
    /// nothing but the thread's place, once.
    ///
    /// What a reader finds in its section through a pointer that it loads there:
    /// * an object given to [`Yard::free_rcu`] is not freed before the section ends;
    /// * an object of a cache with
    ///   [`TYPESAFE_BY_RCU`](crate::cache::CacheFlags::TYPESAFE_BY_RCU) that was freed by a plain
    ///   free may be another object of the same cache by now, again and again, but its memory
    ///   is an object of this cache until the section ends. So the reader may lock it, or
    ///   raise a count in it by compare-exchange from a value that is not 0, and must then look
    ///   again whether it is the object that was sought (its key), and whether it is still
    ///   where it was found; if not, it lets go and looks anew. What it read before that proves
    ///   nothing. Fields that readers use must be atomic, and a constructor must make them, as an
    ///   allocation that initialises them would run against readers.
    #[inline(always)]
    pub fn rcu_read_lock(&self) {
        if !self.heap.rcu.enter(self.platform()) {
            rcu_read_lock_slow(self);
        }
    }

    /// Ends the section that this thread opened last. Without one, nothing happens.
    #[inline(always)]
    pub fn rcu_read_unlock(&self) {
        if !self.heap.rcu.leave(self.platform()) {
            self.heap.rcu.leave_slow(self.platform());
        }
    }

    /// Waits until all sections have ended that are open now.
    ///
    /// # Errors
    /// See [`NotWaited`].
    pub fn synchronize_rcu(&self) -> Result<(), NotWaited> {
        let wanted = wanted_rcu(&self.heap);
        wait_for_readers(self, || poll_rcu(self, wanted))
    }

    /// Frees an object of a cache after all sections that are open now. It does not wait: the
    /// object is in a batch until then, and at most [`MOST_BYTES`](crate::waiting::MOST_BYTES) do.
    ///
    /// # Errors
    /// See [`NotTaken`]: the object is live as before.
    pub fn free_to_rcu(&self, id: CacheId, address: usize) -> Result<(), NotTaken> {
        match self.heap.class_at(address) {
            Some(number) if number != id.number() => Err(NotTaken::Place(self.place_of(address))),
            _ => self.free_rcu(address),
        }
    }

    /// As [`Yard::free_to_rcu`], of an allocation of any kind.
    ///
    /// # Errors
    /// See [`NotTaken`].
    pub fn free_rcu(&self, address: usize) -> Result<(), NotTaken> {
        let bytes = match self.place_of(address) {
            AddressKind::Object { bytes, begin: true, .. } | AddressKind::Large(bytes) => bytes,
            place => return Err(NotTaken::Place(place)),
        };
        let Some(_slow_path) = enter_slow_path(self, RUN_CALLS) else {
            return Err(NotTaken::Interrupted);
        };
        begin_waiting(self);
        take_for_readers(self, address, bytes)
    }

    /// Waits until all objects are freed that were given to [`Yard::free_rcu`] before.
    ///
    /// # Errors
    /// See [`NotWaited`].
    pub fn rcu_barrier(&self) -> Result<(), NotWaited> {
        let tickets = self.waiting.batches.tickets(self.platform());
        wait_for_readers(self, || {
            if let Some(_slow_path) = enter_slow_path(self, LOOK_CALLS) {
                close_batches(self, &tickets);
                serve_waiting(self);
            }
            self.waiting.batches.are_done(self.platform(), &tickets)
        })
    }
}

/// True in a section of this thread's.
pub fn is_in_rcu_section<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    yard.heap.rcu.is_in_section(yard.platform())
}

/// The grace period that ends after all sections that are open now, for [`poll_rcu`].
pub fn wanted_rcu<P: Platform>(heap: &PageHeap<P>) -> Epoch {
    heap.rcu.wanted()
}

/// True if a grace period has ended; advances it otherwise, without waiting.
pub fn poll_rcu<P: Platform, E: Engine>(yard: &Yard<P, E>, epoch: Epoch) -> bool {
    let rcu = &yard.heap.rcu;
    rcu.is_over(epoch)
        || enter_slow_path(yard, LOOK_CALLS).is_some_and(|_path| rcu.poll(yard.platform(), epoch))
}

/// Waits for readers, and then frees an allocation of any kind: where [`Yard::free_rcu`] cannot
/// take it.
///
/// # Errors
/// See [`NotWaited`]: the object is live as before. One that is no live object is left alone,
/// as [`Yard::free`] says.
pub fn free_after_waiting<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    address: usize,
) -> Result<Result<(), AddressKind>, NotWaited> {
    yard.synchronize_rcu()?;
    Ok(yard.free(address))
}

/// Looks at the readers before a waiting thread sleeps.
pub(crate) const SPINS: u32 = 64;

/// Why a thread did not wait for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotWaited {
    /// The caller is in a section itself: it would wait for ever. Call it after the section.
    InSection,
    /// The caller is a signal handler that interrupted a slow path.
    Interrupted,
}

#[cold]
#[inline(never)]
fn rcu_read_lock_slow<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    begin_waiting(yard);
    let rcu = &yard.heap.rcu;
    let slow_path =
        if rcu.may_take(yard.platform()) { enter_slow_path(yard, LOOK_CALLS) } else { None };
    rcu.enter_slow(yard.platform(), slow_path.is_some());
}

/// Looks at readers until `is_done`, without a lock, and outside of the gate.
fn wait_for_readers<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    mut is_done: impl FnMut() -> bool,
) -> Result<(), NotWaited> {
    if is_in_rcu_section(yard) {
        return Err(NotWaited::InSection);
    }
    if is_inside(yard.platform()) {
        return Err(NotWaited::Interrupted);
    }
    let (word, mut looks) = (AtomicU32::new(0), 0);
    while !is_done() {
        looks += 1;
        if looks < SPINS {
            crate::sync::spin_loop();
            yard.platform().step();
        } else {
            yard.platform().wait_at_most(&word, 0, 1);
        }
    }
    Ok(())
}

/// Waits until no slab that a cache had waits for readers.
pub(crate) fn wait_for_slabs<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    id: CacheId,
) -> Result<(), NotWaited> {
    wait_for_readers(yard, || {
        // Its end looks at what waits.
        drop(enter_slow_path(yard, LOOK_CALLS));
        !holds_slabs(yard, id)
    })
}
