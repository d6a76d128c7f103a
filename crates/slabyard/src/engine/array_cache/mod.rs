//! Array caches: the policy of SLAB, as in `mm/slab.c` of 5.9 and until its removal in 6.8.
//!
//! A cache's free objects are, from the fast path down, in each CPU's array ([`mod@array`]), the
//! node's shared array ([`node`]), and the node's slabs ([`lists`]). An array is a stack of
//! [`limit`](Limits::limit) objects: a CPU pops what it pushed last. When the array is empty, a
//! batch is moved into it; when it is full, the batch that has been there longest is moved out.
//! Free slabs stay for later allocations as long as the node has at most
//! [`free_limit`](lists::free_limit) free objects, and [`reap`] discards some unused ones.
//!
//! This is the policy of later kernels. A cache may also follow earlier [policies](policy): the
//! clock of 2.4 ([`clock`]), at most one empty slab (2.5.39), or no arrays.
//!
//! Sources: J. Bonwick, "The Slab Allocator" (USENIX 1994); M. Spraul's series of October 2002
//! (arrays for all caches, tail placement, `free_limit`, reaping by timers) and of June 2003
//! (shared arrays), by the kernel's commit messages.
//!
//! # States of a slab
//!
//! | state | free objects | on the list | who may take objects |
//! |---|---|---|---|
//! | new | all | no | the thread that allocated it |
//! | partial | 1 to all | before the free ones | holder of the list lock |
//! | free | all | after the partial ones | holder of the list lock |
//! | full | 0 | no | no thread: there are none |
//!
//! # Locks
//!
//! A lock of rank `Barn` protects the shared array, the list lock the list of slabs; neither is
//! held while the other is taken. (The kernel has one lock for both: a free that reaches the slabs
//! needs it for each object, while a yard returns objects to slabs without a lock.) The list lock
//! is taken once for each slab operation that changes the list.
//!
//! # Equations (asserted by `verify`)
//!
//! For each slab: free + in arrays + in transit + live = objects. The list's free slabs are empty
//! and correctly counted, and no partial slab follows them.

pub mod alien;
pub mod array;
pub mod clock;
mod engine;
pub mod limits;
pub mod lists;
pub mod node;
mod on_pages;
pub mod policy;
pub mod reap;
mod share;

use super::slabs::Stacks;
use crate::sync::{AtomicU32, Lock, Ordering, Rank};
pub use engine::ArrayCaches;
pub use limits::Limits;
use node::{Empties, Shared};
pub use policy::{Choice, Reclaim};
use policy::{Chosen, Policy};

/// What a cache has at one node beside its list. `C` is a list of arrays.
pub struct NodeArrays<C = u32> {
    shared: Lock<Shared<C>>,
    empties: Empties,
    /// Reclaim passes so far.
    passes: AtomicU32,
    chosen: Chosen,
    /// Slabs that begin now, and whether one began since the clock was here.
    growing: AtomicU32,
    grown: AtomicU32,
    /// Of the first class: the position of the clock's hand.
    hand: AtomicU32,
}

impl<C> NodeArrays<C> {
    /// The state of a cache that is not in use; `none` is a list of no array.
    pub const fn new(none: C) -> Self {
        NodeArrays {
            shared: Lock::new(Rank::Barn, Shared::new(none)),
            empties: Empties::new(),
            passes: AtomicU32::new(0),
            chosen: Chosen::new(),
            growing: AtomicU32::new(0),
            grown: AtomicU32::new(0),
            hand: AtomicU32::new(0),
        }
    }

    /// Follows a policy, before the cache begins.
    pub fn follow(&self, choice: Choice) {
        self.chosen.set(choice);
    }

    /// What it follows.
    pub fn choice(&self) -> Choice {
        self.chosen.get()
    }

    #[inline]
    fn policy(&self) -> &'static Policy {
        self.chosen.policy()
    }

    /// In the child of a fork: no slab is allocated.
    fn begin_child(&self) {
        self.growing.store(0, Ordering::Relaxed);
    }

    /// From now on the clock passes over the cache, or no longer (SLAB_NO_REAP).
    pub fn set_no_reap(&self, no_reap: bool) {
        self.chosen.set_no_reap(no_reap);
    }

    /// The clock's hand, of the first class.
    pub fn hand(&self) -> &AtomicU32 {
        &self.hand
    }

    /// Free slabs, as of a moment ago.
    pub fn nr_free(&self) -> u32 {
        self.empties.len()
    }

    /// False if the clock must pass over the cache. Forgets that it grew.
    pub fn may_reap(&self) -> bool {
        !self.chosen.is_no_reap()
            && self.growing.load(Ordering::Relaxed) == 0
            && self.grown.swap(0, Ordering::Relaxed) == 0
    }
}

/// Slabs, and array caches in front of them.
pub trait Arrays: Stacks {
    /// The shared array of the cache, and what is known of its free slabs.
    fn node(&self) -> &NodeArrays<Self::Chain>;
    /// CPUs of the node.
    fn nr_cpus(self) -> u32;
    /// What this node has of the objects of another one; `None` without alien arrays.
    fn alien(&self, _home: Self) -> Option<&Lock<Shared<Self::Chain>>> {
        None
    }
    /// Marks this CPU's array as touched; true if it was since the last reap. (The fast path
    /// marks nothing: a yard knows it by another sign.)
    fn touch(self, array: Option<&Self::Sheaf>) -> bool;
    /// Pushes objects to an array that has room for them, in their order.
    fn append(self, array: &mut Self::Sheaf, objects: &[Self::Element]);
    /// Takes this many objects off an array's bottom, which the caller has.
    fn drop_oldest(self, array: &mut Self::Sheaf, objects: u32);
}
