//! Estimates how long a cache's slabs wait for RCU readers before their pages are freed.
//!
//! Caches with `SLAB_TYPESAFE_BY_RCU` free a slab's pages after a grace period, whose length
//! depends on the machine and the load: medians of 15 to 40 ms were measured. The trace shows its
//! length: between the last free in a slab and the free of its pages, the empty slab was kept on a
//! list and then waited for the grace period. The estimate is therefore the lower quartile of these
//! times over the cache's slabs. If few slabs were freed, or slabs waited on lists much longer, it
//! is the quartile over all such caches. If all of these caches have sheaves, freed objects may
//! also wait in a sheaf, so only the shortest times are grace periods: then the estimate is the
//! lower sixteenth.
//!
//! [`super::prepare`] asks for the estimate; a replay delays the freeing of pages by it. Sheaves of
//! `kfree_rcu()` wait for [`Readers`].

use super::frames::Slab;
use super::matching::{Step, StepKind, Via};
use std::collections::HashMap;

/// Where the trace says nothing.
pub const UNKNOWN_NS: u64 = 18_000_000;

/// Ends of slabs from which a cache's own time is estimated.
const LEAST_ENDS: usize = 8;
/// The estimate is at this part of the times, the shortest first.
const QUARTILE: usize = 4;
/// The same where an object waits in a sheaf before its slab gets it back.
const SHORTEST: usize = 16;
/// A cache whose time is this many times that of all caches waited for other things.
const MOST_TIMES: u64 = 3;

/// So many slabs are emptied within this part of the usual delay where the trace tells when grace
/// periods ended: one slab alone may have been kept on a list.
const NEAR: u64 = 4;
/// The model discards a slab that the kernel discarded at most so much earlier.
const APART_NS: u64 = 1_000_000;

/// Until when the pages of discarded slabs wait, by slabs of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraceEnds {
    /// Last frees of slabs in order of time, each with the time when its pages were free, or those
    /// of a later one.
    ends: Vec<(u64, u64)>,
}

impl GraceEnds {
    /// Those of the caches that wait for readers.
    #[must_use]
    pub fn of(waits: &[bool], slabs: &[Slab], last_free: &[Option<u64>]) -> GraceEnds {
        let waited = slabs.iter().zip(last_free).filter(|(slab, _)| waits[slab.cache as usize]);
        let ends = waited.filter_map(|(slab, freed)| Some(((*freed)?, slab.closed_at?)));
        let mut ends: Vec<(u64, u64)> = ends.collect();
        ends.sort_unstable();
        let mut earliest = u64::MAX;
        for (_, end) in ends.iter_mut().rev() {
            earliest = earliest.min(*end);
            *end = earliest;
        }
        GraceEnds { ends }
    }

    /// When the pages of a slab are freed that is discarded at a time, where such a slab usually
    /// waits so long.
    #[must_use]
    pub fn end(&self, discarded_ns: u64, usual_ns: u64) -> u64 {
        let from = discarded_ns.saturating_sub(APART_NS);
        let later = self.ends.partition_point(|(freed, _)| *freed < from);
        let until = discarded_ns.saturating_add(usual_ns / NEAR);
        match self.ends.get(later + LEAST_ENDS - 1) {
            Some((freed, _)) if usual_ns > 0 && *freed <= until => {
                self.ends[later].1.max(discarded_ns)
            }
            _ => discarded_ns.saturating_add(usual_ns),
        }
    }
}

/// The delay of each cache that waits for readers, and 0 of the others; by the last free that
/// is traced in each slab. `by_sheaves` says that objects come back to all of them by sheaves.
#[must_use]
pub fn delays(
    waits: &[bool],
    by_sheaves: bool,
    slabs: &[Slab],
    last_free: &[Option<u64>],
) -> Vec<u64> {
    let part = if by_sheaves { SHORTEST } else { QUARTILE };
    let mut waited = vec![Vec::new(); waits.len()];
    for (slab, freed) in slabs.iter().zip(last_free) {
        if let (Some(closed), Some(freed), true) =
            (slab.closed_at, freed, waits[slab.cache as usize])
        {
            waited[slab.cache as usize].push(closed.saturating_sub(*freed));
        }
    }
    let mut all = waited.concat();
    let of_all = lower(&mut all, part).unwrap_or(UNKNOWN_NS);
    let delay = |(waits, ends): (&bool, &mut Vec<u64>)| match waits {
        false => 0,
        true if ends.len() < LEAST_ENDS => of_all,
        true => {
            let own = lower(ends, part).unwrap_or(of_all);
            if own > of_all.saturating_mul(MOST_TIMES) { of_all } else { own }
        }
    };
    waits.iter().zip(&mut waited).map(delay).collect()
}

fn lower(times: &mut [u64], part: usize) -> Option<u64> {
    times.sort_unstable();
    times.get(times.len() / part).copied()
}

/// When readers were gone for which objects waited that `kfree_rcu()` freed.
///
/// Grace periods differ much within one trace: 5 ms to 1.2 s were seen in one. A sheaf waits no
/// longer than until the memory of its objects is used again, and no longer than one that was filled
/// later. A few of its objects may seem to be used again too early, as the trace shows no free;
/// others lay in slabs for a while. So a fifth of each sheaf's objects is left out, those that were
/// used again first.
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
        let mut freed: HashMap<u32, (u64, u32)> = HashMap::new();
        let mut unused = vec![Vec::new(); sheaf_objects.len()];
        for Step { object, op, via, time_ns, cache, slab, .. } in steps {
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
        let of_caches = unused.into_iter().zip(sheaf_objects).filter(|(_, objects)| **objects > 0);
        let gone = of_caches.flat_map(|(mut unused, objects)| {
            unused.sort_unstable();
            Readers::of_sheaves(&unused, *objects as usize)
        });
        let mut gone: Vec<(u64, u64)> = gone.collect();
        gone.sort_unstable();
        let mut least = u64::MAX;
        for (_, at_ns) in gone.iter_mut().rev() {
            least = least.min(*at_ns);
            *at_ns = least;
        }
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

    const SLAB: Slab = Slab {
        frame: 0,
        opened_at: 0,
        closed_at: None,
        closed_by: None,
        first_object: 0,
        objects: 1,
        cache: 0,
        order: 0,
        initial: true,
    };

    /// Slabs of caches, each with its last free at 0 and its end.
    fn delays_of(waits: &[bool], ends: &[(u16, u64)]) -> Vec<u64> {
        let slab = |(nth, (cache, end)): (usize, &(u16, u64))| Slab {
            frame: nth as u64,
            closed_at: Some(*end),
            first_object: nth as u32,
            cache: *cache,
            ..SLAB
        };
        let slabs: Vec<Slab> = ends.iter().enumerate().map(slab).collect();
        delays(waits, false, &slabs, &vec![Some(0); slabs.len()])
    }

    #[test]
    fn the_trace_tells_the_grace_period() {
        let many: Vec<(u16, u64)> = (0..40).map(|nth| (1, 100 + nth)).collect();
        assert_eq!(delays_of(&[false, true, true], &many), [0, 110, 110]);
        assert_eq!(delays_of(&[false, true], &[]), [0, UNKNOWN_NS]);
    }

    #[test]
    fn a_slab_is_freed_with_those_that_were_emptied_after_it() {
        const MS: u64 = 1_000_000;
        let slab = |end| Slab { closed_at: Some(end), ..SLAB };
        // One each millisecond from 100 ms on, all but the first freed at the same end.
        let slabs: Vec<Slab> =
            (0..20).map(|nth| slab(if nth == 0 { 900 } else { 160 } * MS)).collect();
        let last_free: Vec<Option<u64>> = (0..20).map(|nth| Some((100 + nth) * MS)).collect();
        let ends = GraceEnds::of(&[true], &slabs, &last_free);
        let end = |at: u64| ends.end(at * MS, 40 * MS) / MS;
        assert_eq!([end(100), end(105), end(112)], [160; 3]);
        assert_eq!([end(90), end(114)], [130, 154], "the trace shows too few that are near");
        assert_eq!(ends.end(105 * MS, 0), 105 * MS, "a cache that does not wait");
        assert_eq!(GraceEnds::of(&[false], &slabs, &last_free).end(MS, 40), MS + 40);
    }

    #[test]
    fn an_object_may_have_waited_in_a_sheaf() {
        let slab = |end| Slab { closed_at: Some(end), ..SLAB };
        let slabs: Vec<Slab> = (0..32).map(|nth| slab(100 + nth)).collect();
        let of = |by_sheaves| delays(&[true], by_sheaves, &slabs, &vec![Some(0); 32]);
        assert_eq!((of(false), of(true)), (vec![108], vec![102]));
    }

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
            Readers::of(&crate::prepare::matching::sort(both.collect()), &[SLAB], &[0, 10]);
        assert_eq!([0, 15, 40].map(|since| readers.gone_at(since, since + 9)), [100, 302, 302]);
        // Memory that is used again before the sheaf is full proves nothing.
        assert_eq!(readers.gone_at(0, 200), 200);
        assert_eq!(readers.gone_at(60, 70), 70 + UNKNOWN_NS);
        // Nor longer than until the slab's pages are freed.
        let closed = Slab { closed_at: Some(90), cache: 1, ..SLAB };
        let last = step(0, 5, StepKind::Free, Via::Rcu);
        assert_eq!(Readers::of(&[last], &[closed], &[0, 10]).gone_at(5, 6), 90);
    }

    #[test]
    fn a_cache_that_kept_its_empty_slabs_takes_the_time_of_all() {
        let kept = (0..8).map(|_| (0, 5000));
        let ends: Vec<(u16, u64)> = kept.chain((0..40).map(|_| (1, 100))).collect();
        assert_eq!(delays_of(&[true, true], &ends), [100, 100]);
    }
}
