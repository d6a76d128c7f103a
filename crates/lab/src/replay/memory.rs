//! A replay on a machine with limited memory: its slabs, and the other pages of the trace, come
//! from one [`Pages`]; this module defines what happens when the pages run out.
//!
//! Pages in use before the trace are placed first: the initial slabs, slabs that the snapshot
//! counts and no event touches, and pages that the trace only frees. If there is no free block of a
//! cache's order, the slab gets the smallest block that holds an object; SLAB does not do this. A
//! request that finds no pages runs [`Relief`] once. If that frees no pages, the replay ends;
//! except under SLAB, whose arrays hold objects of partial slabs: there the relief may have freed
//! an object that serves the request.
//!
//! [`super::replay`] uses this module; [`super::others`] supplies the other pages; commands print
//! [`MemoryOutcome`]. Invariants: those of [`Pages`]; a page that waits for a grace period belongs
//! to its slab until then, and no relief shortens the grace period.

use super::others::{PageEvent, PageOp};
use super::plan::{Limit, Plan, Relief};
use super::start::PlacedSlabs;
use crate::small::buddy::Block;
pub use crate::small::buddy::MOST_ORDER;
use crate::small::mobility::Type;
pub use crate::small::pages::{Counts, Free};
use crate::small::pages::{Pages, Slabs};
use slabyard_model::cache::{KernelCache, NONE};
use std::collections::HashMap;

/// What found no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryUser {
    /// The memory in use before the trace began exceeds the machine's by this much.
    Start {
        /// Pages that there are not.
        lacking: u64,
    },
    /// A slab of a cache.
    Slab {
        /// Its index in the plan.
        cache: usize,
    },
    /// Pages that are no slab.
    Pages,
}

/// The request that there was no memory for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedRequest {
    /// Steps done, this one included.
    pub step: usize,
    /// Since the trace began.
    pub time_ns: u64,
    /// Who asked.
    pub what: MemoryUser,
    /// The order of the last request.
    pub order: u8,
}

/// What happened in the memory of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryOutcome {
    /// Bytes that the machine was given, and what it did when they ran short.
    pub limit: Limit,
    /// Those of its whole memory, of the traced machine's size.
    pub pages: u32,
    /// Free pages when the trace began.
    pub start: Free,
    /// The moment at which the fewest were free.
    pub fewest: Free,
    /// After the last step.
    pub end: Free,
    /// Pages of slabs that no event touches.
    pub untouched: u64,
    /// What happened to the pages.
    pub counts: Counts,
    /// Pages that a grace period holds.
    pub waiting_pages: u32,
    /// How often something was done.
    pub reliefs: u64,
    /// Pages that this gave back.
    pub relieved_pages: u64,
    /// Objects that it made free, and that took the place of one of a new slab.
    pub retried: u64,
    /// Where it was not enough.
    pub failed: Option<FailedRequest>,
}

/// An allocation from a cache.
pub(super) struct AllocRequest {
    /// Steps done before it.
    pub(super) step: usize,
    pub(super) time_ns: u64,
    pub(super) cache: usize,
    pub(super) cpu: usize,
    pub(super) node: Option<u16>,
}

/// What is held of a block of the trace.
struct HeldBlock {
    /// Its first page, of one that is whole.
    first: u32,
    blocks: Vec<Block>,
}

/// The limited memory of a machine.
pub(super) struct Memory<'a> {
    pages: Pages,
    /// Of each cache.
    slabs: Vec<Slabs>,
    /// The other pages that are held, by number.
    of_others: HashMap<u32, HeldBlock>,
    /// Those that are to come, in order of time.
    others: std::iter::Peekable<std::slice::Iter<'a, PageEvent>>,
    outcome: MemoryOutcome,
    /// Something was done since this was asked last.
    relieved: bool,
    /// Slabs that had found no pages when this was asked last.
    refused: u64,
}

impl<'a> Memory<'a> {
    /// Places what was in use before, and from now on supplies all caches with pages.
    pub(super) fn new(
        limit: Limit,
        plan: &Plan<'a>,
        caches: &mut [KernelCache],
        placed: &PlacedSlabs,
    ) -> Memory<'a> {
        let nr_pages =
            (limit.bytes / u64::from(plan.page_size)).min(u64::from(u32::MAX >> 1)) as u32;
        let pages = Pages::new(nr_pages, plan.page_size, plan.node_of.len() as u32);
        let mut memory = Memory {
            slabs: (0..caches.len()).map(|number| slabs_of(plan, number)).collect(),
            of_others: HashMap::new(),
            others: plan.others.steps.iter().peekable(),
            outcome: MemoryOutcome {
                limit,
                pages: nr_pages,
                start: pages.free(),
                fewest: pages.free(),
                end: pages.free(),
                untouched: 0,
                counts: Counts::default(),
                waiting_pages: 0,
                reliefs: 0,
                relieved_pages: 0,
                retried: 0,
                failed: None,
            },
            pages,
            relieved: false,
            refused: 0,
        };
        memory.pages.at(*plan.prepared.span.start(), 0);
        for (number, order) in plan.others.of_start.iter().enumerate() {
            let blocks = memory.pages.take_before(*order, Type::Unmovable);
            memory.of_others.insert(number as u32, HeldBlock { first: 0, blocks });
        }
        for (number, cache) in caches.iter_mut().enumerate() {
            let slabs = memory.slabs[number];
            let pending = placed.pending(number);
            let untouched = placed.untouched(plan, number, cache);
            cache.supply(memory.pages.supply(slabs), plan.least[number].1);
            let untouched = untouched.saturating_sub(pending.into());
            for _ in 0..u64::from(pending) + untouched {
                memory.pages.set_aside(slabs);
            }
            memory.outcome.untouched += untouched << slabs.order;
        }
        memory.pages.begin();
        (memory.outcome.start, memory.outcome.fewest) = (memory.pages.free(), memory.pages.free());
        let lacking = memory.pages.counts().lacking;
        if lacking > 0 {
            memory.fail(0, *plan.prepared.span.start(), MemoryUser::Start { lacking }, 0);
        }
        memory
    }

    /// Nothing more can be done.
    pub(super) fn has_failed(&self) -> bool {
        self.outcome.failed.is_some()
    }

    fn fail(&mut self, step: usize, time_ns: u64, what: MemoryUser, order: u8) {
        self.outcome.failed = Some(FailedRequest { step, time_ns, what, order });
    }

    /// True if something was done since it was asked last.
    pub(super) fn was_relieved(&mut self) -> bool {
        std::mem::take(&mut self.relieved)
    }

    /// True if a slab found no pages since this was asked last. A call may get an object all the same,
    /// where it wanted several.
    pub(super) fn was_refused(&mut self) -> bool {
        let refused = self.pages.counts().refused;
        std::mem::replace(&mut self.refused, refused) != refused
    }

    /// The next step is a CPU's.
    pub(super) fn on(&self, time_ns: u64, cpu: usize) {
        self.pages.at(time_ns, cpu);
    }

    /// Time passes: the other pages are allocated and freed until then. False: there are none.
    pub(super) fn pass(
        &mut self,
        plan: &Plan<'_>,
        nth: usize,
        time_ns: u64,
        caches: &[KernelCache],
    ) -> bool {
        while let Some(other) = self.others.next_if(|other| other.time_ns <= time_ns) {
            self.pages.at(other.time_ns, usize::from(other.cpu) % plan.node_of.len());
            match other.what {
                PageOp::Take(order) => {
                    let mut block = self.pages.take(order, Type::Unmovable);
                    if block.is_none() && self.relieve(caches) > 0 {
                        block = self.pages.take(order, Type::Unmovable);
                    }
                    let Some(block) = block else {
                        self.fail(nth, other.time_ns, MemoryUser::Pages, order);
                        return false;
                    };
                    let held = HeldBlock { first: block.0, blocks: vec![block] };
                    self.of_others.insert(other.number, held);
                }
                PageOp::Put => {
                    let held = self.of_others.remove(&other.number);
                    let blocks = held.into_iter().flat_map(|held| held.blocks);
                    blocks.for_each(|block| self.pages.put(block));
                }
                PageOp::PutPart(first, order) => {
                    let held = self.of_others.get_mut(&other.number);
                    if let Some(block) = held.and_then(|held| held.take_part(first, order)) {
                        self.pages.put(block);
                    }
                }
            }
        }
        self.pages.at(time_ns, 0);
        true
    }

    /// A CPU goes.
    pub(super) fn unplug(&self, cpu: usize) {
        self.pages.unplug(cpu);
    }

    /// Allocates once more, for which there were no pages: the object's slab, or [`NONE`], which ends
    /// the run.
    pub(super) fn retry(&mut self, request: &AllocRequest, caches: &mut [KernelCache]) -> u32 {
        let AllocRequest { step, time_ns, cache, cpu, node } = *request;
        let slabs = self.slabs[cache];
        if self.outcome.limit.relief != Relief::None {
            self.relieve(caches);
            let has_pages = self.pages.has(slabs);
            // As a kernel does whose page allocation failed: SLAB looks at its slabs again.
            if has_pages || caches[cache].has_arrays() {
                let slab = caches[cache].alloc(cpu, node);
                self.refused = self.pages.counts().refused;
                if slab != NONE {
                    self.outcome.retried += u64::from(!has_pages);
                    return slab;
                }
            }
        }
        self.fail(step + 1, time_ns, MemoryUser::Slab { cache }, slabs.least);
        NONE
    }

    /// Does what is to be done when memory is short; the pages that are free by that.
    pub(super) fn relieve(&mut self, caches: &[KernelCache]) -> u32 {
        let free = || self.pages.free().pages + self.pages.free().kept;
        let before = free();
        match self.outcome.limit.relief {
            Relief::None => return 0,
            Relief::Empties => caches.iter().for_each(KernelCache::end_empties),
            Relief::Full => caches.iter().for_each(KernelCache::shrink),
        }
        let back = free() - before;
        self.relieved = true;
        self.outcome.reliefs += 1;
        self.outcome.relieved_pages += u64::from(back);
        back
    }

    /// What became of it, at the end of the run.
    pub(super) fn outcome(mut self, end_ns: u64) -> MemoryOutcome {
        if !self.has_failed() {
            self.pages.at(end_ns, 0);
        }
        self.outcome.end = self.pages.free();
        self.outcome.fewest = self.pages.fewest();
        self.outcome.counts = self.pages.counts();
        self.outcome.waiting_pages = self.pages.waiting();
        self.outcome
    }
}

impl HeldBlock {
    /// Takes a part out, if it is held still: a trace that lacks events may give it back twice.
    fn take_part(&mut self, first: u32, order: u8) -> Option<Block> {
        let at = self.first + first;
        let of = self
            .blocks
            .iter()
            .position(|(begin, of)| *of >= order && (*begin..begin + (1 << of)).contains(&at))?;
        let (mut begin, mut of) = self.blocks.swap_remove(of);
        while of > order {
            of -= 1;
            // The half that the part is in; the other one stays.
            let upper = begin + (1 << of);
            let (this, other) = if at < upper { (begin, upper) } else { (upper, begin) };
            self.blocks.push((other, of));
            begin = this;
        }
        Some((begin, of))
    }
}

fn slabs_of(plan: &Plan<'_>, number: usize) -> Slabs {
    Slabs {
        cache: number as u32,
        order: plan.orders[number],
        least: plan.least[number].0,
        of: if plan.reclaimable[number] { Type::Reclaimable } else { Type::Unmovable },
        delay_ns: plan.prepared.caches[number].return_delay_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_block_is_given_back_once() {
        let mut held = HeldBlock { first: 16, blocks: vec![(16, 3)] };
        assert_eq!(held.take_part(2, 1), Some((18, 1)));
        assert_eq!(held.take_part(2, 1), None, "it is gone");
        assert_eq!(held.take_part(3, 0), None, "with the other part");
        assert_eq!(held.take_part(7, 0), Some((23, 0)));
        assert_eq!(held.take_part(0, 3), None, "it is not whole");
        held.blocks.sort_unstable();
        assert_eq!(held.blocks, [(16, 1), (20, 1), (22, 0)], "what is left");
    }
}
