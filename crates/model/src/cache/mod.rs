//! A cache whose slabs hold counts instead of objects: a cache of a modelled kernel, on a machine
//! of any shape, or of a yard.
//!
//! Its slabs are entries of [`numbers`]. It runs yards' policies by the kernel's rules: sheaves and
//! barns ([`slabyard::engine::sheaves`]), CPU slabs and CPU partial lists
//! ([`slabyard::engine::cpu_slabs`]), and nodes' partial lists ([`slabyard::engine::partial`]).
//! Linux 6.18 has sheaves in front of CPU slabs, 7.x has sheaves instead of CPU slabs. SLAB's
//! arrays ([`arrays`]) use a yard's policy, too. [`calls`] allocates and frees. One call is under
//! way at a time; locks and compare-exchanges are counted where the kernel would use them, under
//! the kernel's names ([`crate::counters`]). [`walk`] lists where all objects are, and [`audit`]
//! checks the equations below. [`contention`] gives calls a duration, so that they overlap.
//!
//! # Equations
//!
//! For each slab: free + on its CPU + live + in sheaves = its number of [objects](supply). For each
//! cache: the slabs in all states add up to `nr_slabs`. Under rules without CPU slabs, no CPU has
//! one; under rules without CPU partial lists, all such lists are empty.

pub mod arrays;
pub mod audit;
mod begin;
pub mod calls;
mod containers;
mod contend;
pub mod contention;
pub mod follow;
pub mod install;
pub mod lists;
pub mod memory;
mod numbers;
mod on_cpu;
pub mod sheaves;
pub mod slabs;
pub mod supply;
#[cfg(test)]
mod tests;
pub mod walk;

use crate::counters::{Counter, Counters};
pub use containers::{CountedSheaf, CpuPartial};
use containers::{Cpu, CpuStacks};
use memory::NodeMemory;
use numbers::Numbers;
pub use numbers::{NONE, State};
pub use sheaves::AllocCall;
use slabyard::engine::array_cache::NodeArrays;
use slabyard::engine::array_cache::node::Shared;
pub use slabyard::engine::cpu_slabs::{Accounting, Freezing, Front, Planted, Rules};
pub use slabyard::engine::partial_list::End;
use slabyard::engine::sheaves::NodeSheaves;
use slabyard::engine::slabs::{Refill, Rules as SheafRules};
use slabyard::engine::{Header, Shape};
use slabyard::slab::{Geometry, Word};
use slabyard::sync::{AtomicUsize, Lock, Nobody, Rank};
use slabyard_kernels::KernelSheaves;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// What a node has of a cache: its words, partial list and barn.
pub(crate) struct Node {
    pub(crate) header: Header,
    pub(crate) sheaves: NodeSheaves<Vec<CountedSheaf>>,
    pub(crate) arrays: NodeArrays<Vec<CountedSheaf>>,
    /// Free objects that wait for their node, by its number.
    pub(crate) aliens: Vec<Lock<Shared<Vec<CountedSheaf>>>>,
}

/// One cache of a modelled kernel.
pub struct KernelCache {
    rules: Rules,
    sheaf_rules: SheafRules,
    /// What counts allocations from a CPU's sheaf, and frees to it.
    sheaf_hits: (Counter, Counter),
    numbers: Numbers,
    /// True: no kernel's, but a yard's.
    is_of_yard: bool,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) nodes: Vec<Node>,
    /// Stacks of each CPU: none without sheaves.
    pub(crate) stacks: Vec<CpuStacks>,
    /// Full sheaves of `kfree_rcu()` that wait for readers, with their CPUs, in order.
    waiting: RefCell<VecDeque<(usize, CountedSheaf)>>,
    /// Node of each CPU.
    node_of: Vec<u16>,
    /// The nodes on which its slabs are.
    pub memory: NodeMemory,
    nr_slabs: Cell<u32>,
    /// Bytes in barns.
    node_bytes: AtomicUsize,
    /// Nodes have alien arrays.
    has_aliens: bool,
    nobody: Nobody,
    counters: Counters,
    /// Slabs begun and ended, in order, until somebody takes them.
    pages: RefCell<Vec<Page>>,
    slow_paths: Cell<u32>,
    /// The next allocation may wait for memory.
    pub may_wait: Cell<bool>,
    /// One that may not refills sheaves, too.
    nowait_refills: bool,
    /// Calls overlap in time.
    contention: Option<contention::Contention>,
    /// Pages have an end.
    supplied: Option<supply::SuppliedSlabs>,
}

/// A slab that begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// The slab was allocated.
    New(u32),
    /// The slab was discarded, and its pages freed.
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
        let refill = if rules.has_cpu_slabs() { Refill::Below } else { Refill::Whole };
        let sheaf_rules = SheafRules { refill, ..SheafRules::KERNEL };
        let geometry = Geometry::counted(rules.objects);
        let stack_objects = match rules.front {
            Front::CpuSlabs | Front::Nothing => 0,
            Front::SheavesOverCpuSlabs | Front::Sheaves => rules.sheaf_capacity,
            Front::ArrayCaches(limits) => limits.limit,
        };
        let shape = Shape { stack_objects, ..Shape::new(geometry, 0) };
        let mut cache = Self::with(rules, sheaf_rules, shape, node_of);
        cache.follow_sheaves(KernelSheaves::FIRST);
        if rules.front == Front::Sheaves {
            // Without CPU slabs, the names of their fast paths are free (7.0).
            cache.sheaf_hits = (Counter::AllocFastpath, Counter::FreeFastpath);
        }
        for node in &cache.nodes {
            node.header.set_min_partial(rules.min_partial);
            if let Front::ArrayCaches(limits) = rules.front {
                limits.publish(&node.header);
            }
        }
        cache
    }

    /// Barns and refills are by these rules from now on.
    pub fn follow_sheaves(&mut self, sheaves: KernelSheaves) {
        self.sheaf_rules.counts_surplus = sheaves.surplus_is_freed;
        self.nowait_refills = sheaves.nowait_refills;
        self.memory.memoryless_barns = sheaves.memoryless_barns;
        for node in &self.nodes {
            node.header.set_barn_limits(sheaves.max_full, sheaves.max_empty);
        }
    }

    /// A cache of a yard: no kernel's. Below its sheaves are its slabs alone.
    #[must_use]
    pub fn of_yard(shape: Shape, sheaf_rules: SheafRules, cpus: usize) -> Self {
        let rules = Rules {
            objects: shape.geometry.objects,
            front: Front::Sheaves,
            sheaf_capacity: shape.stack_objects,
            ..Rules::of_kind(Freezing::Delayed, Accounting::Slabs, false)
        };
        KernelCache {
            numbers: Numbers::of_words(rules.objects.div_ceil(Word::OBJECTS)),
            is_of_yard: true,
            ..Self::with(rules, sheaf_rules, shape, &vec![0; cpus])
        }
    }

    fn with(rules: Rules, sheaf_rules: SheafRules, shape: Shape, node_of: &[u16]) -> Self {
        assert!(!node_of.is_empty() && rules.objects > 0);
        let nr_nodes = node_of.iter().copied().max().map_or(1, |node| node as usize + 1);
        let nr_stacks = if shape.stack_objects > 0 { node_of.len() } else { 0 };
        KernelCache {
            rules,
            sheaf_rules,
            sheaf_hits: (Counter::AllocCpuSheaf, Counter::FreeCpuSheaf),
            numbers: Numbers::of_words(1),
            is_of_yard: false,
            cpus: vec![Cpu::default(); node_of.len()],
            nodes: (0..nr_nodes).map(|_| Node::new(shape, nr_nodes)).collect(),
            stacks: (0..nr_stacks).map(|_| CpuStacks::default()).collect(),
            waiting: RefCell::default(),
            node_of: node_of.to_vec(),
            memory: NodeMemory::new(nr_nodes),
            nr_slabs: Cell::new(0),
            node_bytes: AtomicUsize::new(0),
            has_aliens: true,
            nobody: Nobody::default(),
            counters: Counters::default(),
            pages: RefCell::default(),
            slow_paths: Cell::new(0),
            may_wait: Cell::new(true),
            nowait_refills: true,
            contention: None,
            supplied: None,
        }
    }

    /// As it was made with, but for what settings changed since.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Slabs that have pages, full ones included.
    #[must_use]
    pub fn nr_slabs(&self) -> u32 {
        self.nr_slabs.get()
    }

    /// Since it was made, or its slabs were installed.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Where a slab is.
    #[must_use]
    pub fn state(&self, slab: u32) -> State {
        self.slab(slab).state.get()
    }

    /// Slabs begun and ended since the last call, in order.
    pub fn take_pages(&mut self) -> std::vec::Drain<'_, Page> {
        self.pages.get_mut().drain(..)
    }

    /// Calls `f` with each of those, and the node of the slab.
    pub fn each_page(&self, mut f: impl FnMut(Page, u16)) {
        for page in self.pages.borrow().iter() {
            let (Page::New(slab) | Page::Freed(slab)) = *page;
            f(*page, self.slab(slab).node.get());
        }
    }

    /// True if there are any for [`KernelCache::take_pages`].
    #[inline]
    #[must_use]
    pub fn has_pages(&mut self) -> bool {
        !self.pages.get_mut().is_empty()
    }
}

impl Node {
    fn new(shape: Shape, nr_nodes: usize) -> Self {
        let (header, sheaves) = (Header::new(), NodeSheaves::new(Vec::new(), Vec::new()));
        header.begin("", shape, 0);
        NodeSheaves::<Vec<CountedSheaf>>::publish_limits(&header);
        let alien = |_| Lock::new(Rank::Barn, Shared::aside(Vec::new()));
        let aliens = (0..nr_nodes).map(alien).collect();
        Node { header, sheaves, arrays: NodeArrays::new(Vec::new()), aliens }
    }
}
