//! Finds allocations without events by the order of free objects.
//!
//! A slab's free objects form a stack: the object freed last is allocated first. So if an object is
//! allocated while another one of its slab that was freed later is still free by the trace, then
//! that one had been allocated without an event, by a task that is not traced. If its free leaves
//! no event either, no other event contradicts the two, and only the order shows them.
//!
//! A CPU's slab has two stacks: the CPU allocates from its own, and other CPUs free into the
//! slab's, which the CPU takes over whole when its own is empty. The order of objects that were
//! free at the start, or are free in a new slab, is unknown; they lie below those freed since.
//!
//! [`super::one_step`] reports each step here, and asks what the step proves. Invariants: nothing
//! in this module depends on the model; an object is on one stack of its slab at most.

use crate::prepare::Step;
use crate::prepare::frames::NO_SLAB;
use std::collections::{HashMap, HashSet};

/// The order of two events that are nearer than this may be another one than the trace's: a free
/// is traced before its work, and an interrupt may come between an allocation's work and its event.
const RACE_NS: u64 = 50_000;

/// The stacks of all slabs.
pub struct FreeOrder {
    nr_cpus: usize,
    slabs: HashMap<u32, Stacks>,
    /// By cache and CPU: the slab that the CPU allocates from.
    own: Vec<u32>,
}

/// What has left no event, as an allocation shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// So many objects of the slab were allocated.
    pub allocations: u32,
    /// The object had been freed.
    pub free: bool,
}

/// The free objects of a slab whose order is known, the one to be allocated next last.
#[derive(Default)]
struct Stacks {
    /// The CPU whose slab it is.
    owner: Option<usize>,
    /// What its CPU allocates from.
    own: Vec<FreeObject>,
    /// What other CPUs freed.
    shared: Vec<FreeObject>,
    /// Objects that were allocated without an event, and perhaps freed since.
    unseen: HashSet<u32>,
}

#[derive(Clone, Copy)]
struct FreeObject {
    object: u32,
    freed_ns: u64,
}

impl Unseen {
    /// Whether there is anything.
    pub fn any(self) -> bool {
        self.free || self.allocations > 0
    }
}

impl FreeOrder {
    /// Nothing is known yet.
    pub fn new(caches: usize, nr_cpus: usize) -> FreeOrder {
        FreeOrder { nr_cpus, slabs: HashMap::new(), own: vec![NO_SLAB; caches * nr_cpus] }
    }

    /// An object is freed on a CPU.
    pub fn freed(&mut self, cpu: usize, step: &Step) {
        let stacks = self.slabs.entry(step.slab).or_default();
        if step.missed {
            // It was freed some time before.
            stacks.unseen.insert(step.object);
            return;
        }
        stacks.unseen.remove(&step.object);
        let freed = FreeObject { object: step.object, freed_ns: step.time_ns };
        let is_own = stacks.owner == Some(cpu);
        if is_own { &mut stacks.own } else { &mut stacks.shared }.push(freed);
    }

    /// An object is allocated on a CPU.
    pub fn allocated(&mut self, cpu: usize, step: &Step) -> Unseen {
        let own = &mut self.own[step.cache as usize * self.nr_cpus + cpu];
        let before = core::mem::replace(own, step.slab);
        let mut allocations = 0;
        if before != step.slab {
            if let Some(stacks) = self.slabs.get_mut(&before) {
                allocations = stacks.leave(step.time_ns);
            }
            self.slabs.entry(step.slab).or_default().take(cpu);
        }
        let stacks = self.slabs.entry(step.slab).or_default();
        let free = stacks.unseen.remove(&step.object);
        if !free {
            allocations += stacks.allocated(step.object, step.time_ns);
        }
        Unseen { allocations, free }
    }

    /// The slab's pages were freed.
    pub fn ended(&mut self, slab: u32) {
        self.slabs.remove(&slab);
    }

    /// The kernel flushed the CPUs of a cache.
    pub fn shrunk(&mut self, cache: usize) {
        for own in &mut self.own[cache * self.nr_cpus..][..self.nr_cpus] {
            if let Some(stacks) = self.slabs.get_mut(own) {
                stacks.flush();
            }
            *own = NO_SLAB;
        }
    }
}

impl Stacks {
    /// Its CPU took another slab, so none of these was free any more. Returns how many.
    fn leave(&mut self, now_ns: u64) -> u32 {
        let taken = self.own.iter().filter(|of| of.is_certain(now_ns)).count();
        self.flush();
        taken as u32
    }

    /// What its CPU did not use lies on top of what others freed.
    fn flush(&mut self) {
        self.shared.append(&mut self.own);
        self.owner = None;
    }

    /// A CPU makes it its own.
    fn take(&mut self, cpu: usize) {
        self.flush();
        self.owner = Some(cpu);
        self.own = core::mem::take(&mut self.shared);
    }

    /// Its CPU allocates an object. Returns how many it must have allocated before.
    fn allocated(&mut self, object: u32, now_ns: u64) -> u32 {
        let place = |stack: &[FreeObject]| stack.iter().rposition(|of| of.object == object);
        let above = if let Some(at) = place(&self.own) {
            let above = self.own.split_off(at + 1);
            self.own.pop();
            above
        } else if let Some(at) = place(&self.shared) {
            let later = self.shared.split_off(at + 1);
            self.shared.pop();
            let own = core::mem::replace(&mut self.own, core::mem::take(&mut self.shared));
            if own.is_empty() {
                later
            } else {
                // When the CPU took the slab's stack over is unknown.
                self.shared = later;
                own
            }
        } else {
            core::mem::take(&mut self.own)
        };
        let mut taken = 0;
        for of in above {
            if of.is_certain(now_ns) {
                self.unseen.insert(of.object);
                taken += 1;
            } else {
                self.own.push(of);
            }
        }
        taken
    }
}

impl FreeObject {
    /// Whether it was freed before what happens now.
    fn is_certain(&self, now_ns: u64) -> bool {
        self.freed_ns + RACE_NS < now_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::{StepKind, Via};

    /// Frees objects of a slab in this order on a CPU, one each millisecond.
    fn freed(order: &mut FreeOrder, cpu: usize, from_ms: u64, objects: &[u32]) {
        for (nth, object) in (0..).zip(objects) {
            order.freed(cpu, &step(from_ms + nth, *object, 0, StepKind::Free));
        }
    }

    fn step(ms: u64, object: u32, slab: u32, op: StepKind) -> Step {
        let time_ns = ms * 1_000_000;
        let (via, nowait, missed) = (Via::Plain, false, false);
        Step { time_ns, object, slab, cache: 0, task: 1, cpu: 0, node: 0, op, via, nowait, missed }
    }

    fn alloc(order: &mut FreeOrder, ms: u64, object: u32, slab: u32) -> u32 {
        order.allocated(0, &step(ms, object, slab, StepKind::Alloc)).allocations
    }

    #[test]
    fn what_was_freed_last_is_allocated_first() {
        let mut order = FreeOrder::new(1, 2);
        freed(&mut order, 1, 0, &[1, 2, 3]);
        assert_eq!([3, 2, 1].map(|object| alloc(&mut order, 9, object, 0)), [0, 0, 0]);
    }

    #[test]
    fn what_lies_above_an_allocated_object_was_allocated_unseen() {
        let mut order = FreeOrder::new(1, 2);
        freed(&mut order, 1, 0, &[1, 2, 3, 4]);
        assert_eq!(alloc(&mut order, 9, 2, 0), 2);
        // The two come back unseen, too: that proves nothing of others.
        let again = order.allocated(0, &step(10, 4, 0, StepKind::Alloc));
        assert_eq!(again, Unseen { allocations: 0, free: true });
        assert_eq!(alloc(&mut order, 11, 1, 0), 0);
    }

    #[test]
    fn the_stacks_of_a_cpu_and_of_others_are_apart() {
        let mut order = FreeOrder::new(1, 2);
        assert_eq!(alloc(&mut order, 0, 9, 0), 0);
        freed(&mut order, 0, 1, &[1]);
        freed(&mut order, 1, 2, &[5]);
        assert_eq!([1, 5].map(|object| alloc(&mut order, 9, object, 0)), [0, 0]);
        // A CPU that leaves its slab has used what it had there.
        freed(&mut order, 0, 10, &[1]);
        assert_eq!(alloc(&mut order, 19, 30, 1), 1);
        freed(&mut order, 0, 20, &[2]);
        order.shrunk(0);
        assert_eq!(alloc(&mut order, 29, 30, 1), 0, "a shrink leaves what is free");
    }

    #[test]
    fn events_that_are_near_prove_nothing() {
        let mut order = FreeOrder::new(1, 2);
        freed(&mut order, 1, 0, &[1]);
        let late = Step { time_ns: 990_000, ..step(0, 2, 0, StepKind::Free) };
        order.freed(1, &late);
        assert_eq!(alloc(&mut order, 1, 1, 0), 0);
        assert_eq!(alloc(&mut order, 2, 2, 0), 0);
    }
}
