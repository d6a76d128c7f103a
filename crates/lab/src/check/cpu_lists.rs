//! Derives from the trace which slabs are on the kernel's CPU partial lists, while the model
//! follows the kernel's own choices.
//!
//! A free into a full slab puts the slab on the freeing CPU's partial list; if that list is already
//! full, it is drained. Events may not show whether a slab was full: some objects of a slab that
//! existed at the start were allocated before the trace, and no event names them.
//! [`crate::prepare`] assumes that such objects are live, or free if the slab's pages were freed.
//! After a free into such a slab, the kernel's list may be one slab longer or shorter than the
//! model's, until an event proves that the kernel's list was empty or was drained. The same holds
//! of all lists of a cache after an allocation or free without an event ([`super::free_order`]).
//!
//! [`super::one_step`] reports each event here; [`super::pairs`] uses the result to correct the
//! model. Invariant: nothing in this module depends on the model.

use crate::prepare::Slab;
use crate::prepare::frames::NO_SLAB;
use crate::replay::Plan;

/// Slabs that the kernel gave back, between two steps of a CPU.
pub struct EndedSlabs {
    /// The kernel's numbers.
    pub slabs: Vec<u32>,
    pub drained: Option<DrainTotals>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainTotals {
    pub cpu: usize,
    /// The slab that came last: there was no room for it, so the others left.
    pub last: u32,
}

/// What is known of the lists of all CPUs and caches.
pub struct CpuLists {
    nr_cpus: usize,
    /// By cache and CPU.
    lists: Vec<List>,
    /// Per cache: freed slabs whose CPU is unknown, or is not the one that freed.
    others: Vec<Vec<u32>>,
}

#[derive(Clone)]
struct List {
    /// The slab of the last free.
    freed: u32,
    /// A slab joined the list, or left it, and no event shows whether it did.
    untold: bool,
    /// Given back since the last step.
    ended: Vec<u32>,
    /// Slabs that joined and may be there still, the last one last, each with its turn.
    joined: Vec<(u64, u32)>,
    /// Slabs that ever joined.
    turns: u64,
}

impl CpuLists {
    /// Nothing is known yet.
    pub fn new(plan: &Plan<'_>) -> CpuLists {
        let (caches, nr_cpus) = (plan.rules.len(), plan.node_of.len());
        let list =
            List { freed: NO_SLAB, untold: false, ended: Vec::new(), joined: Vec::new(), turns: 0 };
        CpuLists { nr_cpus, lists: vec![list; caches * nr_cpus], others: vec![Vec::new(); caches] }
    }

    fn of(&mut self, cache: usize, cpu: usize) -> &mut List {
        &mut self.lists[cache * self.nr_cpus + cpu]
    }

    /// An object is freed in a slab that has this many live ones by the trace.
    pub fn freed(&mut self, plan: &Plan<'_>, cache: usize, cpu: usize, kernel: u32, live: u32) {
        let slab = &plan.prepared.slabs[kernel as usize];
        let untold = plan.prepared.untold.get(kernel as usize).copied().unwrap_or(0);
        let list = self.of(cache, cpu);
        list.freed = kernel;
        if live == slab.objects {
            list.turns += 1;
            list.joined.push((list.turns, kernel));
        }
        list.untold |= may_or_may_not_be_full(slab, live, untold);
    }

    /// Something was allocated or freed without an event: a slab may have left or joined any list.
    pub fn unseen(&mut self, cache: usize) {
        for cpu in 0..self.nr_cpus {
            self.of(cache, cpu).untold = true;
        }
    }

    /// The kernel shows that a CPU's list is empty.
    pub fn found_empty(&mut self, cache: usize, cpu: usize) {
        let list = self.of(cache, cpu);
        list.untold = false;
        list.joined.clear();
    }

    /// The kernel flushed the lists of all CPUs.
    pub fn shrunk(&mut self, cache: usize) {
        for cpu in 0..self.nr_cpus {
            self.found_empty(cache, cpu);
            self.of(cache, cpu).freed = NO_SLAB;
        }
    }

    /// A CPU took a slab, which is on no list then. If the slab had joined that CPU's own list and
    /// may still have been on it: returns the slabs behind it there, the next one last; a list has
    /// at most `most` slabs.
    pub fn taken(&mut self, cache: usize, cpu: usize, kernel: u32, most: u32) -> Option<Vec<u32>> {
        let mut behind = None;
        for nth in 0..self.nr_cpus {
            let List { joined, turns, .. } = self.of(cache, nth);
            let Some(at) = joined.iter().rposition(|(_, slab)| *slab == kernel) else { continue };
            if nth == cpu {
                // What came later would have been taken before.
                joined.truncate(at);
                joined.retain(|(turn, _)| turn + u64::from(most) > *turns);
                behind = Some(joined.iter().map(|(_, slab)| *slab).collect());
            } else {
                joined.remove(at);
            }
        }
        behind
    }

    /// Whether events tell how many slabs the list of each CPU has.
    pub fn are_told(&self, cache: usize) -> bool {
        let lists = &self.lists[cache * self.nr_cpus..][..self.nr_cpus];
        lists.iter().all(|list| !list.untold)
    }

    /// The kernel gave a slab back.
    pub fn ended(&mut self, plan: &Plan<'_>, cache: usize, kernel: u32) {
        // What waits for readers is given back by whoever runs then.
        let waits = plan.prepared.caches[cache].return_delay_ns > 0;
        match plan.prepared.slabs[kernel as usize].closed_by {
            Some(cpu) if !waits => {
                let cpu = usize::from(cpu) % self.nr_cpus;
                self.of(cache, cpu).ended.push(kernel);
            }
            _ => self.others[cache].push(kernel),
        }
    }

    /// Returns what was freed before the next step of a CPU.
    pub fn take_ended(
        &mut self,
        cache: usize,
        cpu: usize,
    ) -> impl Iterator<Item = EndedSlabs> + use<> {
        let others = core::mem::take(&mut self.others[cache]);
        let list = self.of(cache, cpu);
        let slabs = core::mem::take(&mut list.ended);
        // A slab that a free empties on its node's list is given back alone.
        let others_too = list.freed != NO_SLAB && slabs.iter().any(|slab| *slab != list.freed);
        let drained = others_too.then_some(DrainTotals { cpu, last: list.freed });
        list.untold &= !others_too;
        if others_too {
            let last = list.joined.len().saturating_sub(1);
            list.joined.drain(..last);
        }
        let both = [EndedSlabs { slabs, drained }, EndedSlabs { slabs: others, drained: None }];
        both.into_iter().filter(|ended| !ended.slabs.is_empty())
    }
}

/// Whether a slab with so many live objects by the trace is full in the kernel, or is not.
fn may_or_may_not_be_full(slab: &Slab, live: u32, untold: u32) -> bool {
    if slab.closed_at.is_some() {
        // The untold are taken for free.
        untold > 0 && live < slab.objects && live + untold >= slab.objects
    } else {
        untold > 0 && live == slab.objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_no_event_tells_of_leave_it_open_whether_a_slab_was_full() {
        let slab = |closed_at| Slab { closed_at, objects: 8, ..Slab::ONE };
        let open = |closed_at, live, untold| may_or_may_not_be_full(&slab(closed_at), live, untold);
        // Taken for live: it looks full.
        assert_eq!([open(None, 8, 0), open(None, 8, 1), open(None, 7, 1)], [false, true, false]);
        // Taken for free: it looks as if it were not.
        assert_eq!(
            [open(Some(9), 8, 0), open(Some(9), 6, 2), open(Some(9), 5, 2)],
            [false, true, false]
        );
    }

    #[test]
    fn a_drain_is_told_from_an_empty_slab_of_the_nodes() {
        let list = |freed, ended: &[u32]| List {
            freed,
            untold: true,
            ended: ended.to_vec(),
            joined: Vec::new(),
            turns: 0,
        };
        let mut lists = CpuLists {
            nr_cpus: 3,
            lists: vec![list(4, &[4]), list(4, &[2, 3]), list(NO_SLAB, &[2])],
            others: vec![Vec::new()],
        };
        let drained: Vec<_> =
            (0..3).map(|cpu| lists.take_ended(0, cpu).next().unwrap().drained).collect();
        assert_eq!(drained, [None, Some(DrainTotals { cpu: 1, last: 4 }), None]);
        assert_eq!([0, 1, 2].map(|nth: usize| lists.lists[nth].untold), [true, false, true]);
        assert!(lists.take_ended(0, 1).next().is_none(), "each is taken once");
    }

    #[test]
    fn what_joined_before_a_slab_that_is_taken_is_behind_it() {
        let list = List {
            freed: NO_SLAB,
            untold: false,
            ended: Vec::new(),
            joined: (1..=6).map(|turn| (turn, 10 + turn as u32)).collect(),
            turns: 6,
        };
        let other = List { joined: vec![(1, 15)], turns: 1, ..list.clone() };
        let lists = vec![list, other];
        let mut lists = CpuLists { nr_cpus: 2, lists, others: vec![Vec::new()] };
        // Of six that joined a list has four at most, and 16 would have come before 15.
        assert_eq!(lists.taken(0, 0, 15, 4), Some(vec![13, 14]));
        assert!(lists.lists[1].joined.is_empty(), "it is on no list now");
        assert_eq!(lists.taken(0, 0, 16, 4), None);
        assert_eq!(lists.taken(0, 0, 14, 4), Some(vec![13]));
    }
}
