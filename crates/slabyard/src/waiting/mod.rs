//! Floor 5: what programs call about readers ([`crate::rcu`]): sections, waiting for readers,
//! and frees after them (the kernel's `rcu_read_lock`, `synchronize_rcu`, `kfree_rcu`).
//!
//! Nothing here needs a thread of its own: what waits is looked at by the end of each slow path
//! ([`serve_waiting`]), which advances the grace period and frees one batch of objects and
//! up to [`MOST_SLABS`] slabs; [`Yard::rcu_barrier`] does all of it.
//!
//! Neighbours: [`batches`] keeps the objects; [`deferred`] has the frees that wait for the end of a
//! slow path; [`crate::created`] waits before a cache goes.
//! Invariant: nothing waits for readers under a lock or within the gate: a reader may fork, or
//! wait for a lock, in its section.

mod batches;
pub(crate) mod deferred;

use crate::cache::CacheId;
use crate::cache::slots::{number_of, slot_of};
use crate::engine::Engine;
use crate::pages::PageHeap;
use crate::platform::{Platform, Slot};
use crate::rcu::Epoch;
use crate::sync::{AtomicU32, Once};
use crate::waiting::batches::{
    close_batches, close_old_batch, free_waited_batch, take_for_readers,
};
use crate::yard::slow_path::{LOOK_CALLS, RUN_CALLS, enter_slow_path, is_inside};
use crate::yard::{Place, Yard};
pub(crate) use batches::Batches;
pub use batches::{BATCH, MOST_BYTES};
use core::marker::PhantomData;

/// Slabs that one slow path frees after readers.
const MOST_SLABS: usize = 16;
/// Looks at the readers before a waiting thread sleeps.
const SPINS: u32 = 64;

/// Why a thread did not wait for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotWaited {
    /// The caller is in a section itself: it would wait for ever. Call it after the section.
    InSection,
    /// The caller is a signal handler that interrupted a slow path.
    Interrupted,
}

/// Why an object was not taken to be freed after readers. It is the caller's as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// It is not the begin of a live object, or not of this cache's: where it lies.
    Place(Place),
    /// More than [`MOST_BYTES`], or as many batches as there are, wait for readers that stay.
    /// Try again after sections, or wait by [`Yard::free_after_waiting`].
    Full,
    /// The system refuses memory for a batch. As above.
    Memory,
    /// The caller is a signal handler that interrupted a slow path.
    Interrupted,
}

/// What waits for readers in a yard.
pub(crate) struct Waiting<P, E> {
    pub(crate) batches: Batches,
    /// What the rest of a yard calls: set with the first reader or the first that waits, so that a
    /// yard without has no code for it.
    on_some: Once<Calls<P, E>>,
}

/// Gets slot and address of an object.
type OnObject<'a> = &'a mut dyn FnMut(Slot, usize);

struct Calls<P, E> {
    /// At the end of a slow path.
    serve: fn(&Yard<P, E>),
    /// In the child of a fork.
    forget: fn(&Yard<P, E>),
    /// For `verify`, and the next.
    each_object: fn(&Yard<P, E>, OnObject<'_>),
    count_held: fn(&Yard<P, E>) -> u64,
}

impl<P, E> Waiting<P, E> {
    pub(crate) const fn new() -> Self {
        Waiting { batches: Batches::new(), on_some: Once::new() }
    }
}

/// A section, as a value: it ends when this is dropped. It stays in its thread.
#[must_use]
pub struct Section<'a, P: Platform, E: Engine> {
    yard: &'a Yard<P, E>,
    thread: PhantomData<*const ()>,
}

impl<P: Platform, E: Engine> Drop for Section<'_, P, E> {
    #[inline]
    fn drop(&mut self) {
        self.yard.rcu_read_unlock();
    }
}

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

    /// Opens a section that ends with a value.
    #[inline]
    pub fn rcu_section(&self) -> Section<'_, P, E> {
        self.rcu_read_lock();
        Section { yard: self, thread: PhantomData }
    }

    /// True in a section of this thread's.
    pub fn is_in_rcu_section(&self) -> bool {
        self.heap.rcu.is_in_section(self.platform())
    }

    /// The grace period that ends after all sections that are open now, for
    /// [`Yard::poll_rcu`].
    pub fn wanted_rcu(&self) -> Epoch {
        self.heap.rcu.wanted()
    }

    /// True if a grace period has ended; advances it otherwise, without waiting.
    pub fn poll_rcu(&self, epoch: Epoch) -> bool {
        let rcu = &self.heap.rcu;
        rcu.is_over(epoch)
            || enter_slow_path(self, LOOK_CALLS)
                .is_some_and(|_path| rcu.poll(self.platform(), epoch))
    }

    /// Waits until all sections have ended that are open now.
    ///
    /// # Errors
    /// See [`NotWaited`].
    pub fn synchronize_rcu(&self) -> Result<(), NotWaited> {
        let wanted = self.wanted_rcu();
        wait_for_readers(self, || self.poll_rcu(wanted))
    }

    /// Frees an object of a cache after all sections that are open now. It does not wait: the
    /// object lies in a batch until then, and at most [`MOST_BYTES`] do.
    ///
    /// # Errors
    /// See [`NotTaken`]: the object is live as before.
    pub fn free_to_rcu(&self, id: CacheId, address: usize) -> Result<(), NotTaken> {
        match self.class_at(address) {
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
            Place::Object { bytes, begin: true, .. } | Place::Large(bytes) => bytes,
            place => return Err(NotTaken::Place(place)),
        };
        let Some(_slow_path) = enter_slow_path(self, RUN_CALLS) else {
            return Err(NotTaken::Interrupted);
        };
        begin_waiting(self);
        take_for_readers(self, address, bytes)
    }

    /// Waits for readers, and then frees an allocation of any kind: where [`Yard::free_rcu`] cannot
    /// take it.
    ///
    /// # Errors
    /// See [`NotWaited`]: the object is live as before. One that is no live object is left alone,
    /// as [`Yard::free`] says.
    pub fn free_after_waiting(&self, address: usize) -> Result<Result<(), Place>, NotWaited> {
        self.synchronize_rcu()?;
        Ok(self.free(address))
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
    if yard.is_in_rcu_section() {
        return Err(NotWaited::InSection);
    }
    if is_inside(yard) {
        return Err(NotWaited::Interrupted);
    }
    let (word, mut looks) = (AtomicU32::new(0), 0);
    while !is_done() {
        looks += 1;
        if looks < SPINS {
            core::hint::spin_loop();
            yard.platform().step();
        } else {
            yard.platform().wait_at_most(&word, 0, 1);
        }
    }
    Ok(())
}

/// True if a slab that a cache had waits for readers.
pub(crate) fn holds_slabs<P: Platform, E: Engine>(yard: &Yard<P, E>, id: CacheId) -> bool {
    let mut holds = false;
    if yard.heap.rcu.nr_held() > 0 {
        yard.heap.each_held(|slot| holds |= number_of(slot) == Some(id.number()));
    }
    holds
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

/// From now on the end of each slow path looks at what waits.
pub(crate) fn begin_waiting<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    if yard.waiting.on_some.try_get().is_none() {
        let forget = |yard: &Yard<P, E>| yard.heap.rcu.forget_others(yard.platform());
        yard.waiting.on_some.set(Calls {
            serve: serve_waiting,
            forget,
            each_object: each_object,
            count_held: count_list,
        });
        yard.heap.on_ended.set(PageHeap::hold);
    }
}

/// At the end of a slow path, which holds no lock.
#[inline(always)]
pub(crate) fn look_at_waiting<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    if let Some(calls) = yard.waiting.on_some.try_get() {
        (calls.serve)(yard);
    }
}

/// In the child of a fork: readers that do not exist there are no more.
pub(crate) fn forget_readers<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    if let Some(calls) = yard.waiting.on_some.try_get() {
        (calls.forget)(yard);
    }
}

/// Calls `f` with slot and address of each object of a cache that waits for readers (for
/// `verify`).
pub(crate) fn each_waiting<P: Platform, E: Engine>(yard: &Yard<P, E>, f: OnObject<'_>) {
    if let Some(calls) = yard.waiting.on_some.try_get() {
        (calls.each_object)(yard, f);
    }
}

fn each_object<P: Platform, E: Engine>(yard: &Yard<P, E>, f: OnObject<'_>) {
    yard.waiting.batches.each_object(&yard.heap, |address| {
        if let Some(number) = yard.class_at(address) {
            f(slot_of(number), address);
        }
    });
}

/// Slabs on the list of those that wait for readers (for `verify`).
pub(crate) fn count_held<P: Platform, E: Engine>(yard: &Yard<P, E>) -> u64 {
    yard.waiting.on_some.try_get().map_or(0, |calls| (calls.count_held)(yard))
}

fn count_list<P: Platform, E: Engine>(yard: &Yard<P, E>) -> u64 {
    let mut slabs = 0;
    yard.heap.each_held(|_| slabs += 1);
    slabs
}

/// Something waits for readers, as of a moment ago.
#[inline(always)]
pub(crate) fn has_waiting<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    yard.waiting.batches.nr_waiting() + yard.heap.rcu.nr_held() != 0
}

/// Frees a part of what has waited long enough, and advances the grace period. The caller is in
/// a slow path and holds no lock.
pub(crate) fn serve_waiting<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    if !has_waiting(yard) {
        return;
    }
    let p = yard.platform();
    close_old_batch(yard);
    let first = yard.heap.first_held().into_iter().chain(yard.waiting.batches.first(p)).min();
    if first.is_none_or(|first| !yard.heap.rcu.poll(p, first)) {
        return;
    }
    free_waited_slabs(yard);
    free_waited_batch(yard);
}

fn free_waited_slabs<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    for _ in 0..MOST_SLABS {
        let Some(waited) = yard.heap.take_waited() else { return };
        // The cache is there as long as one of its slabs waits.
        if let Some(number) = number_of(waited.slot) {
            let cache = yard.caches.get(number);
            cache.on(&yard.heap).free_waited(waited.slab);
        }
    }
}
