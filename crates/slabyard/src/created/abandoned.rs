//! Abandoned caches: given up while some of their objects were live. The free of the last live
//! object destroys the cache.
//!
//! No call maintains a count of live objects, so a fast path that frees the last one would go
//! unnoticed. So an abandoned cache has no fast path: its [`FastPath`] words are closed, and a
//! fence of all CPUs aborts every restartable sequence that may have read them while they were
//! open. From then on each free is slow, and checks at its end whether any object of the cache is
//! still live. Nobody allocates from the cache any more, so the number of live objects only falls.
//!
//! If CPUs cannot be fenced, a push that read the words before they were closed may commit later,
//! without such a check. Then [`sweep_abandoned`], called when caches are created, shrunk or
//! destroyed, finds the cache. The sweep also finds a cache whose last free was deferred, or was
//! cut off by a fork.
//!
//! ```text
//!          abandon_cache                    last free, or a sweep
//! there ------------------> abandoned ------------------------------> no more
//!    |   (no object live)                                              ^
//!    +-----------------------------------------------------------------+
//! ```
//!
//! Neighbours: [`super`] destroys caches; typed caches hold an [`Owner`]. Invariants: the abandoned
//! bit is set before the words are closed. So the abandoning thread's own check sees each slow free
//! that has ended, and each slow free that ends later sees the bit. The owner's memory is freed by
//! the last of its users: the cache, and those of the cache's objects that are mappings.

use crate::cache::CacheId;
use crate::created::NotDestroyed;
use crate::engine::Engine;
use crate::platform::{FastPath, Platform};
use crate::reclaim::walk::{Stacks, entries};
use crate::slow_path::enter_slow_path;
use crate::sync::{AtomicUsize, Ordering};
use crate::yard::Yard;
use crate::yard::depth::{RUN_CALLS, is_inside};

/// The begin of a block of the yard that a cache's maker keeps as long as it has objects.
#[repr(C)]
#[derive(Debug)]
pub struct Owner {
    /// The cache, and its objects that are mappings.
    users: AtomicUsize,
}

impl Owner {
    /// The cache alone uses it.
    #[must_use]
    pub const fn new() -> Self {
        Owner { users: AtomicUsize::new(1) }
    }

    /// Counts an object that is in a mapping and not in a slab of the cache.
    pub fn add_mapping(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    /// True if this user was the last: the block is the caller's to free.
    #[must_use]
    pub fn leave(&self) -> bool {
        // AcqRel: whoever frees the block does so after all others' last look at it.
        self.users.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl Default for Owner {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Gives a cache up: it goes now if no object of it is live, else with the last. True if it
    /// went; `words` must not be read any more then.
    ///
    /// # Safety
    /// No call names the cache afterwards but [`Yard::free`] of its live objects followed by
    /// [`end_if_abandoned`]; meanwhile other threads may free its objects, by these words.
    /// `owner` is 0, or the address of a block of this yard that begins with an [`Owner`], which
    /// nobody else frees.
    pub unsafe fn abandon_cache(&self, id: CacheId, words: &FastPath, owner: usize) -> bool {
        let Some(cache) = self.find_cache(id) else { return false };
        cache.set_owner(owner);
        self.caches.abandon(id.number());
        words.close();
        // Without the fence, what follows treats the cache as where none is possible.
        let _ = self.platform().can_stop() && self.platform().fence();
        end_if_abandoned(self, id)
    }
}

/// Destroys a cache that its maker keeps, if no object of it is live.
///
/// # Errors
/// See [`NotDestroyed`]: then the cache is there as before.
///
/// # Safety
/// As [`Yard::abandon_cache`], but that the cache may be named as before after an error.
pub unsafe fn destroy_unused<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    id: CacheId,
    words: &FastPath,
) -> Result<(), NotDestroyed> {
    let slot = words.slot();
    words.close();
    let _ = yard.platform().can_stop() && yard.platform().fence();
    let result = destroy_without_objects(yard, id);
    if result.is_err() {
        words.open(slot);
    }
    result
}

/// True if the cache was abandoned and is still there.
#[inline]
pub fn is_abandoned<P: Platform, E: Engine>(yard: &Yard<P, E>, id: CacheId) -> bool {
    yard.caches.is_abandoned(id.number()) && yard.find_cache(id).is_some()
}

/// After a free of an object of a cache: destroys it if it was abandoned, and this was the
/// last. True if it went.
pub fn end_if_abandoned<P: Platform, E: Engine>(yard: &Yard<P, E>, id: CacheId) -> bool {
    if !is_abandoned(yard, id) || may_be_live(yard, id) {
        return false;
    }
    // The address is read while the cache is there: of two threads that come here one destroys it.
    let Some(owner) = yard.find_cache(id).map(|cache| cache.owner()) else { return false };
    if destroy_without_objects(yard, id).is_err() {
        return false;
    }
    leave_owner(yard, owner);
    true
}

/// Destroys the abandoned caches of which no object is live.
pub fn sweep_abandoned<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    for number in yard.caches.abandoned() {
        if let Some(id) = yard.caches.id_of(number) {
            end_if_abandoned(yard, id);
        }
    }
}

/// Ends one use of an owner's block, and the block with the last.
pub fn leave_owner<P: Platform, E: Engine>(yard: &Yard<P, E>, owner: usize) {
    // SAFETY: the block begins with an owner until its last user leaves it.
    if owner != 0 && unsafe { &*(owner as *const Owner) }.leave() {
        let freed = yard.free(owner);
        debug_assert!(freed.is_ok(), "the block is of this yard");
    }
}

/// True while a slow free is deferred, and links the object through its first word.
pub(crate) fn defers<P: Platform, E: Engine>(yard: &Yard<P, E>) -> bool {
    is_inside(yard.platform())
}

/// False if all objects that are out of an abandoned cache's slabs are parked. True while
/// another thread's slow path has some: it looks itself, after its work. The drain lock keeps
/// those away that would not look: drains and passes.
fn may_be_live<P: Platform, E: Engine>(yard: &Yard<P, E>, id: CacheId) -> bool {
    let Some(_slow_path) = enter_slow_path(yard, RUN_CALLS) else { return true };
    let _guard = yard.drain.lock(yard.platform());
    let Some(cache) = yard.find_cache(id) else { return false };
    let out = cache.out();
    let rows = yard.platform().rows();
    let parked: u64 = entries(yard, Stacks::Cache(id.number()))
        .map(|(row, slot)| yard.heap.sheaves.count_of(rows.entry(row, slot).top()))
        .map(|count| u64::from(count.unwrap_or(0)))
        .sum();
    out > parked + cache.barn_objects()
}

/// Destroys a cache whose words are closed, if no object of it is live: where CPUs cannot be
/// stopped, only after a count has shown it, because other threads' rows must not be touched
/// while they may push.
fn destroy_without_objects<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    id: CacheId,
) -> Result<(), NotDestroyed> {
    if !yard.platform().can_stop() {
        let live = yard.quiesce(|quiesced| {
            // It allocates no more, and the gate is closed: what moves meanwhile are pushes, and
            // the stacks are counted last.
            yard.find_cache(id).map(|_| Yard::count_cache(quiesced, id.number()).live)
        });
        match live {
            None => return Err(NotDestroyed::Interrupted),
            Some(None) => return Err(NotDestroyed::Unknown),
            Some(Some(0)) => {}
            Some(Some(live)) => return Err(NotDestroyed::Live(live)),
        }
    }
    // SAFETY: where CPUs can be stopped, other threads at most free objects; else none is
    // live, and so no call is under way.
    unsafe { yard.destroy_cache(id) }
}
