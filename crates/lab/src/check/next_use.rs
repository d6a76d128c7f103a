//! Looks ahead in the trace: what the next event of a slab is, and which slab a CPU takes next.
//!
//! [`super::one_step`] predicts without this module. After a wrong prediction [`super::pairs`]
//! learns here which of several causes the trace confirms. Invariant: nothing in this module
//! depends on the model.

use crate::prepare::{Prepared, Step, StepKind};

/// A slab into which an object was freed no longer ago than this may have come to a list after the
/// CPU looked there.
const RACE_NS: u64 = 1_000_000;

/// What comes next, while the steps pass.
pub struct NextUse {
    nr_cpus: usize,
    /// Steps that passed, and when the last one ran.
    passed: usize,
    now_ns: u64,
    /// A bit for each step: the next one of its slab is an allocation.
    alloc_follows: Vec<u64>,
    slabs: Vec<SlabUse>,
    /// By cache and CPU.
    switches: Vec<Switches>,
}

/// Of one slab, now.
#[derive(Clone, Copy, Default)]
struct SlabUse {
    /// Its next event is an allocation.
    next_allocates: bool,
    /// When an object of it was freed last.
    freed_ns: u64,
}

/// The slabs that a CPU allocates from, one after the other.
#[derive(Clone, Default)]
struct Switches {
    slabs: Vec<u32>,
    passed: usize,
}

impl NextUse {
    /// By a pass over all steps.
    pub fn of(prepared: &Prepared, nr_cpus: usize) -> NextUse {
        let mut next = NextUse {
            nr_cpus,
            passed: 0,
            now_ns: 0,
            alloc_follows: vec![0; prepared.steps.len().div_ceil(64)],
            slabs: vec![SlabUse::default(); prepared.slabs.len()],
            switches: vec![Switches::default(); prepared.caches.len() * nr_cpus],
        };
        let mut last = vec![None; prepared.slabs.len()];
        for (nth, step) in prepared.steps.iter().enumerate() {
            let before: Option<usize> = last[step.slab as usize].replace(nth);
            if step.op == StepKind::Free {
                continue;
            }
            match before {
                Some(before) => next.alloc_follows[before / 64] |= 1 << (before % 64),
                None => next.slabs[step.slab as usize].next_allocates = true,
            }
            let cpu = step.cpu as usize % nr_cpus;
            let slabs = &mut next.switches[step.cache as usize * nr_cpus + cpu].slabs;
            if slabs.last() != Some(&step.slab) {
                slabs.push(step.slab);
            }
        }
        next
    }

    /// The next step happens.
    pub fn step(&mut self, step: &Step) {
        let slab = &mut self.slabs[step.slab as usize];
        slab.next_allocates = self.alloc_follows[self.passed / 64] >> (self.passed % 64) & 1 == 1;
        if step.op == StepKind::Free {
            slab.freed_ns = step.time_ns;
        }
        (self.passed, self.now_ns) = (self.passed + 1, step.time_ns);
    }

    /// A CPU switched to another slab: returns the one that it switches to after that.
    pub fn switched(&mut self, cache: usize, cpu: usize) -> Option<u32> {
        let Switches { slabs, passed } = &mut self.switches[cache * self.nr_cpus + cpu];
        *passed += 1;
        slabs.get(*passed).copied()
    }

    /// Whether the next event of a slab allocates from it: it has a free object.
    pub fn has_free(&self, slab: u32) -> bool {
        self.slabs[slab as usize].next_allocates
    }

    /// Whether a slab that was passed over has no free object, as far as events show: nothing
    /// allocates from it before something frees into it, and nothing just did.
    pub fn is_used_up(&self, slab: u32) -> bool {
        let SlabUse { next_allocates, freed_ns } = self.slabs[slab as usize];
        !next_allocates && freed_ns + RACE_NS < self.now_ns
    }
}
