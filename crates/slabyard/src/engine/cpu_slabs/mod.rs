//! SLUB with its CPU-slabs front, as kernels to 6.19 have it, and their sheaves
//! (6.18 before CPU slabs, 7.x in their place), on a machine of any shape.
//!
//! Containers of a [`KernelCache`], from the fast path down: each CPU's sheaves
//! ([`sheaves`]), its CPU slab ([`alloc`]), its CPU partial list, each node's
//! partial list ([`lists`]), the pages below. What is returned goes by [`free`].
//! [`crate::engine::counters`] tells what was done, under the kernel's names; [`walk`] shows what is
//! where, [`audit`] checks the equations below.
//!
//! Slabs are counted, not filled: an object is a token that names its slab, and
//! which object of the slab it is does not matter to any of these rules. One call
//! is under way at a time; what a kernel does under a lock or by a
//! compare-exchange is counted where it would do it.
//!
//! # States of a slab
//!
//! | state | eager freezing (to 6.7) | delayed (from 6.8) | free objects |
//! |---|---|---|---|
//! | full | - | - | 0 |
//! | node partial | - | on node list | 1 to all |
//! | CPU partial | frozen | - | 1 to all |
//! | CPU slab | frozen | frozen | any, and the CPU's own |
//!
//! Sources: C. Lameter's design (2007) and its changes as told by the kernel's
//! commit messages: 49e2258586b4 (CPU partial lists), b47291ef02b0 (slabs counted,
//! not objects), the series "slub: Delay freezing of CPU partial slabs" (2023), the
//! series "SLUB percpu sheaves" (2025).
//!
//! # Equations
//!
//! For each slab: free + on its CPU + live + in sheaves = objects. For each cache:
//! slabs in each state add up to `nr_slabs`; without CPU slabs in the rules no CPU has
//! one, and without CPU partial lists all of these are empty.

pub mod alloc;
pub mod audit;
pub mod follow;
pub mod free;
pub mod install;
pub mod lists;
pub mod sheaves;
#[cfg(test)]
mod tests;
pub mod walk;

use crate::engine::counters::{Counter, Counters};
use ::alloc::vec;
use ::alloc::vec::Vec;
use lists::Links;

/// No slab.
pub const NONE: u32 = u32::MAX;

/// When a slab that is taken off the node's list is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freezing {
    /// As it leaves the node's list, under the list lock (to 6.7).
    Eager,
    /// When it is picked for use (from 6.8).
    Delayed,
}

/// How much a CPU partial list may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// Free objects, counted as a slab joins the list (to 5.15).
    Objects,
    /// Slabs (from 5.16).
    Slabs,
    /// Free objects, counted at every free; a slab that becomes empty leaves the
    /// list at once. No kernel does it.
    Exact,
}

/// What a CPU looks into first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// Its CPU slab.
    CpuSlabs,
    /// Its sheaves, refilled by the way of its CPU slab (6.18, caches that ask).
    SheavesOverCpuSlabs,
    /// Its sheaves, refilled from the node's list (7.x).
    Sheaves,
}

/// A bug or a wrong rule, which a checker must find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// No bug.
    #[default]
    None,
    /// Slabs taken off the node's list in one go are forgotten where CPU partial
    /// lists are off: the first version of delayed freezing (October 2023).
    LoseExtraSlabs,
    /// Drained slabs join the node's list at its head.
    DrainToHead,
    /// Only the slab to use is taken off the node's list.
    NoBatchMove,
}

/// What is fixed for a cache.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Objects in a slab.
    pub objects: u32,
    /// Slabs kept on a node's list although they are empty.
    pub min_partial: u32,
    /// Free objects that a CPU partial list may hold ([`Accounting::Objects`],
    /// [`Accounting::Exact`]).
    pub cpu_partial: u32,
    /// Slabs that it may hold ([`Accounting::Slabs`]).
    pub cpu_partial_slabs: u32,
    /// False: there are no CPU partial lists.
    pub cpu_partial_lists: bool,
    /// When slabs are frozen.
    pub freezing: Freezing,
    /// What is counted.
    pub accounting: Accounting,
    /// Where a CPU looks first.
    pub front: Front,
    /// Objects in a sheaf; 0: no sheaves, whatever the front.
    pub sheaf_capacity: u32,
    /// Part, in 1024ths, of the slow paths that look at other nodes' lists.
    pub remote_ratio: u32,
    /// A planted bug.
    pub planted: Planted,
}

impl Rules {
    /// False from 7.0 on and in SLUB_TINY: objects come from nodes' lists alone, or
    /// from sheaves.
    #[must_use]
    pub fn has_cpu_slabs(&self) -> bool {
        self.front != Front::Sheaves
    }
}

/// Where a slab is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Of nobody: its number is free for the next slab.
    Gone,
    /// In no list: it has no free object.
    Full,
    /// On its node's list.
    NodePartial,
    /// On a CPU partial list.
    CpuPartial,
    /// A CPU's slab.
    CpuSlab,
}

/// A slab.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slab {
    /// Free objects that are not its CPU's.
    pub(crate) free: u32,
    /// Free objects as its CPU partial list has counted them.
    pub(crate) counted: u32,
    pub(crate) links: Links,
    /// CPU that has it, in its list or as its slab.
    pub(crate) cpu: u16,
    pub(crate) node: u16,
    /// CPU that last freed an object of it while another CPU had it.
    pub(crate) freed_by: u16,
    pub(crate) state: State,
}

/// What a CPU has of a cache, sheaves apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    pub(crate) slab: u32,
    /// Free objects of the slab that only this CPU may take.
    pub(crate) free: u32,
    pub(crate) partial: lists::CpuPartial,
}

/// One cache of a modelled kernel.
pub struct KernelCache {
    rules: Rules,
    pub(crate) slabs: Vec<Slab>,
    gone: Vec<u32>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) nodes: Vec<lists::NodePartial>,
    pub(crate) sheaves: Vec<sheaves::CpuSheaves>,
    pub(crate) barns: Vec<sheaves::Barn>,
    /// Node of each CPU.
    node_of: Vec<u16>,
    nr_slabs: u32,
    counters: Counters,
    /// Slabs begun and ended, in order, until somebody takes them.
    pages: Vec<Page>,
    slow_paths: u32,
}

/// A slab that begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// It was made.
    New(u32),
    /// It was given back.
    Freed(u32),
}

impl KernelCache {
    /// A cache without slabs. `node_of` gives the node of each CPU.
    ///
    /// # Panics
    /// Without a CPU, or if a slab has no object.
    #[must_use]
    pub fn new(mut rules: Rules, node_of: &[u16]) -> Self {
        // Kernels without CPU slabs have no lists of them.
        rules.cpu_partial_lists &= rules.has_cpu_slabs();
        assert!(!node_of.is_empty() && rules.objects > 0);
        let nr_nodes = node_of.iter().copied().max().map_or(1, |node| node as usize + 1);
        let cpu = Cpu { slab: NONE, free: 0, partial: lists::CpuPartial::EMPTY };
        let has_sheaves = rules.front != Front::CpuSlabs && rules.sheaf_capacity > 0;
        let (sheaves, barns) = if has_sheaves { (node_of.len(), nr_nodes) } else { (0, 0) };
        KernelCache {
            rules,
            slabs: Vec::new(),
            gone: Vec::new(),
            cpus: vec![cpu; node_of.len()],
            nodes: vec![lists::NodePartial::EMPTY; nr_nodes],
            sheaves: (0..sheaves).map(|_| sheaves::CpuSheaves::default()).collect(),
            barns: (0..barns).map(|_| sheaves::Barn::default()).collect(),
            node_of: node_of.to_vec(),
            nr_slabs: 0,
            counters: Counters::default(),
            pages: Vec::new(),
            slow_paths: 0,
        }
    }

    /// Its rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Slabs that it has.
    #[must_use]
    pub fn nr_slabs(&self) -> u32 {
        self.nr_slabs
    }

    /// What it did.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Where a slab is.
    #[must_use]
    pub fn state(&self, slab: u32) -> State {
        self.slabs[slab as usize].state
    }

    /// Slabs begun and ended since the last call, in order.
    pub fn take_pages(&mut self) -> ::alloc::vec::Drain<'_, Page> {
        self.pages.drain(..)
    }

    /// True if there are any for [`KernelCache::take_pages`].
    #[inline]
    #[must_use]
    pub fn has_pages(&self) -> bool {
        !self.pages.is_empty()
    }

    /// Begins a slab whose objects are all free, in no list.
    pub(crate) fn begin_slab(&mut self, node: u16) -> u32 {
        let slab = Slab {
            free: self.rules.objects,
            counted: 0,
            links: Links::NONE,
            cpu: 0,
            node,
            freed_by: 0,
            state: State::Full,
        };
        let number = if let Some(number) = self.gone.pop() {
            self.slabs[number as usize] = slab;
            number
        } else {
            self.slabs.push(slab);
            self.slabs.len() as u32 - 1
        };
        self.nr_slabs += 1;
        self.counters.add(Counter::AllocSlab, 1);
        self.pages.push(Page::New(number));
        number
    }

    /// Ends a slab that is empty and in no list.
    pub(crate) fn discard(&mut self, slab: u32) {
        debug_assert_eq!(self.slabs[slab as usize].free, self.rules.objects);
        self.slabs[slab as usize].state = State::Gone;
        self.gone.push(slab);
        self.nr_slabs -= 1;
        self.counters.add(Counter::FreeSlab, 1);
        self.pages.push(Page::Freed(slab));
    }
}
