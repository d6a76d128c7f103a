//! CPU slabs: the policy of SLUB in kernels up to 6.19, with each kernel's [`rules`].
//!
//! A cache's free objects are, from the fast path down, in each CPU's slab, whose free objects only
//! that CPU may take ([`alloc`], [`free`]); each CPU's partial list ([`lists`]); and the node's
//! partial list ([`super::partial`]).
//!
//! A thread checks a CPU's slab, or its partial list, out of its entry, works on it in private, and
//! checks it in. If it then finds another slab or list in the entry, that one is surplus, and moves
//! to the node's list.
//!
//! # States of a slab
//!
//! | state | eager freezing (to 6.7) | delayed (from 6.8) | free objects |
//! |---|---|---|---|
//! | full | - | - | 0 |
//! | node partial | - | on node list | 1 to all |
//! | CPU partial | frozen | - | 1 to all |
//! | CPU slab | frozen | frozen | any, and those in the CPU's stack |
//!
//! A frozen slab belongs to its CPU: other CPUs' frees only add objects to it. The thread that
//! frees the first object of a full slab puts the slab on a list.

pub mod alloc;
mod below;
mod engine;
pub mod free;
pub mod lists;
mod on_pages;
pub mod rules;

use super::Shape;
use super::slabs::{FlushTarget, Group, Held};
use crate::platform::Stopped;
use crate::slab::Version;
pub use engine::OnCpus;
pub use rules::{Front, Planted, Rules};
pub use slabyard_kernels::{Accounting, Freezing};

/// A CPU's slab, out of its entry.
#[must_use]
pub struct CpuSlab<O> {
    /// Frozen: no list has it.
    pub slab: u32,
    /// Its objects that the CPU alone may take.
    pub own: O,
}

/// What a free to a slab found.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Freed {
    /// Whoever relists the slab checks by it that it is still the same one.
    pub version: Version,
    /// Free objects before.
    pub before: u32,
    /// Objects added.
    pub added: u32,
    /// A CPU has it: the node's list does not get it.
    pub frozen: bool,
    /// The slab is on a CPU partial list, as far as one can see.
    pub parked: bool,
    /// By [`Accounting::Exact`], the free made the slab empty and took it off its CPU partial
    /// list: it is the caller's.
    pub unparked: bool,
}

/// What the policy of CPU slabs asks of CPU partial lists, be their slabs pages or numbers.
#[doc(hidden)] // For `slabyard-fixed` and `slabyard-model`.
pub trait CpuPartialLists: FlushTarget {
    /// A CPU partial list, out of its entry: last in, first out.
    type List: Held;
    /// Freezing, accounting and limits of the cache.
    fn cpu_rules(&self) -> &Rules;
    /// Checks this CPU's partial list out of its entry: an empty one where there is none.
    /// `None` if the entry is stopped, or there is no memory.
    fn check_out_list(self) -> Option<Self::List>;
    /// Checks a list in; returns the one that was found there meanwhile, or the same one if the
    /// entry is stopped.
    fn check_in_list(self, list: Self::List) -> Option<Self::List>;
    /// Free objects of a list's slabs, as its accounting counts them.
    fn objects_of(self, list: &Self::List) -> u32;
    /// Puts a slab with this many free objects on a list; false if there is no room.
    fn park(self, list: &mut Self::List, slab: u32, free: u32) -> bool;
    /// Takes the slab that came last off a list.
    fn unpark(self, list: &mut Self::List) -> Option<u32>;
    /// Takes an empty slab off a list, wherever it is there.
    fn unpark_empty(self, list: &mut Self::List) -> Option<u32>;
    /// The slab that would be next.
    fn next_parked(self, list: &Self::List) -> Option<u32>;
    /// Takes a list back, without slabs.
    fn give_list(self, list: Self::List);
}

/// What the policy of CPU slabs asks of each CPU's slab, be it on pages or a number.
#[doc(hidden)] // For `slabyard-fixed` and `slabyard-model`.
pub trait CpuSlabs: CpuPartialLists {
    /// Objects that a CPU alone may take.
    type Own: Held;
    /// True if an object of this slab is what the allocation asks for.
    fn fits(self, _slab: u32) -> bool {
        true
    }
    /// The same CPU, and the slabs of another slab's node.
    fn near(self, _slab: u32) -> Self {
        self
    }
    /// The same CPU, and the slabs of the `nth` other node, if the allocation may look there.
    fn elsewhere(self, _nth: usize) -> Option<Self> {
        None
    }
    /// Checks this CPU's slab out of its entry.
    ///
    /// # Errors
    /// [`Stopped`] if the entry is stopped, or this thread has none.
    fn check_out_slab(self) -> Result<Option<CpuSlab<Self::Own>>, Stopped>;
    /// Checks a slab in; returns the one that was found there meanwhile, or the same one if the
    /// entry is stopped.
    fn check_in_slab(self, slab: CpuSlab<Self::Own>) -> Option<CpuSlab<Self::Own>>;
    /// Room for a slab's objects; `None` without memory.
    fn new_own(self) -> Option<Self::Own>;
    /// Takes it back, without objects.
    fn give_own(self, own: Self::Own);
    /// Takes an object.
    fn pop_own(self, slab: &mut CpuSlab<Self::Own>) -> Option<Self::Object>;
    /// Takes a slab's free objects over, for as many as there is room, and freezes it, by one
    /// compare-exchange; where it has none, that thaws it. Returns how many it took.
    fn take_over(self, shape: &Shape, slab: u32, own: &mut Self::Own) -> u32;
    /// Returns objects to their slab and thaws it, by one compare-exchange. Returns the free
    /// objects before and after.
    fn put_back(self, shape: &Shape, slab: u32, own: &mut Self::Own) -> (u32, u32);
    /// Frees objects of one word to a slab, by one compare-exchange; with `freezes`, that freezes
    /// a slab that was full.
    fn free_into(self, shape: &Shape, group: &Group, freezes: bool) -> Freed;
    /// Freezes a slab for a CPU partial list.
    fn freeze(self, slab: u32);
    /// Thaws a slab of a CPU partial list.
    fn thaw(self, slab: u32);
    /// True if an exchange under the list lock fails, because another CPU's is under way on the
    /// slab: in a model in which calls overlap.
    #[inline]
    fn is_contended(self, _slab: u32) -> bool {
        false
    }
}
