//! When RCU readers were gone for which objects waited that `kfree_rcu()` freed.
//!
//! Grace periods differ much within one trace: 5 ms to 1.2 s were seen in one. A sheaf waits no
//! longer than until the memory of its objects is used again, and no longer than one that was filled
//! later. A few of its objects may seem to be used again too early, as the trace shows no free;
//! others lay in slabs for a while. So a fifth of each sheaf's objects is left out, those that were
//! used again first.
//!
//! [`super::prepare`] asks for it; a replay gives sheaves back then. Neighbour: [`super::grace`]
//! estimates how long slabs wait.

use super::frames::Slab;
use super::grace::{UNKNOWN_NS, none_waits_longer};
use super::matching::{Step, StepKind, Via};
use std::collections::HashMap;

/// When they were gone, for sheaves of `kfree_rcu()`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readers {
    /// In order of time: when as many objects as a sheaf holds had been freed, and when the
    /// readers of these were gone.
    gone: Vec<(u64, u64)>,
}

/// The part of a sheaf's objects that is left out.
const TOO_EARLY: usize = 5;

impl Readers {
    /// By the steps, in order of time, and the objects of each cache's sheaves; without these a
    /// cache tells nothing. Memory is used again, too, when its slab's pages are freed.
    pub(super) fn of(steps: &[Step], slabs: &[Slab], sheaf_objects: &[u32]) -> Readers {
        let tells = |step: &&Step| sheaf_objects[usize::from(step.cache)] > 0;
        let mut freed: HashMap<u32, (u64, u32)> = HashMap::new();
        let mut unused = vec![Vec::new(); sheaf_objects.len()];
        for Step { object, op, via, time_ns, cache, slab, .. } in steps.iter().filter(tells) {
            if *op == StepKind::Alloc {
                let since = freed.remove(object).map(|(since, _)| (since, *time_ns));
                unused[usize::from(*cache)].extend(since);
            } else if *via == Via::Rcu {
                freed.insert(*object, (*time_ns, *slab));
            }
        }
        for (since, slab) in freed.into_values() {
            let Slab { closed_at, cache, .. } = slabs[slab as usize];
            unused[usize::from(cache)].extend(closed_at.map(|at_ns| (since, at_ns)));
        }
        let told = unused.into_iter().zip(sheaf_objects).filter(|(unused, _)| !unused.is_empty());
        let gone = told.flat_map(|(mut unused, objects)| {
            unused.sort_unstable();
            Readers::of_sheaves(&unused, *objects as usize)
        });
        let mut gone: Vec<(u64, u64)> = gone.collect();
        gone.sort_unstable();
        none_waits_longer(&mut gone);
        Readers { gone }
    }

    /// By when the objects of a cache were freed, in order of time, and when their memory was used
    /// again: the same of each sheaf.
    fn of_sheaves(unused: &[(u64, u64)], sheaf_objects: usize) -> Vec<(u64, u64)> {
        let sheaf = |objects: &[(u64, u64)]| {
            let mut again: Vec<u64> = objects.iter().map(|(_, again)| *again).collect();
            again.sort_unstable();
            let last = objects.last().map_or(0, |(freed, _)| *freed);
            (last, again[again.len() / TOO_EARLY])
        };
        unused.chunks(sheaf_objects).map(sheaf).collect()
    }

    /// When the readers are gone of a sheaf that was full at `full_ns`, and whose first object was
    /// freed at `since_ns`.
    #[must_use]
    pub fn gone_at(&self, since_ns: u64, full_ns: u64) -> u64 {
        let at = self.gone.partition_point(|(freed, _)| *freed < since_ns);
        self.gone.get(at).map_or(full_ns + UNKNOWN_NS, |(_, gone)| full_ns.max(*gone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheaf_waits_until_its_memory_is_used_again() {
        let sheaf = |freed: u64, again: u64| (0..10).map(move |nth| (freed + nth, again + nth));
        // The second one waits no longer than the third; two of the first are astray.
        let mut unused: Vec<(u64, u64)> =
            sheaf(0, 100).chain(sheaf(20, 400)).chain(sheaf(40, 300)).collect();
        (unused[3].1, unused[4].1) = (5, 6);
        let step = |object, time_ns, op, via| Step {
            time_ns,
            object,
            slab: 0,
            cache: 1,
            task: 0,
            cpu: 0,
            node: crate::event::ANY_NODE,
            op,
            via,
            missed: false,
            nowait: false,
        };
        let both = (0..).zip(&unused).flat_map(|(object, (freed, again))| {
            let free = step(object, *freed, StepKind::Free, Via::Rcu);
            [free, step(object, *again, StepKind::Alloc, Via::Plain)]
        });
        let readers =
            Readers::of(&crate::prepare::matching::sort(both.collect()), &[Slab::ONE], &[0, 10]);
        assert_eq!([0, 15, 40].map(|since| readers.gone_at(since, since + 9)), [100, 302, 302]);
        // Memory that is used again before the sheaf is full proves nothing.
        assert_eq!(readers.gone_at(0, 200), 200);
        assert_eq!(readers.gone_at(60, 70), 70 + UNKNOWN_NS);
        // Nor longer than until the slab's pages are freed.
        let closed = Slab { closed_at: Some(90), cache: 1, ..Slab::ONE };
        let last = step(0, 5, StepKind::Free, Via::Rcu);
        assert_eq!(Readers::of(&[last], &[closed], &[0, 10]).gone_at(5, 6), 90);
    }
}
