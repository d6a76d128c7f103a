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
//! [`super::prepare`] asks for the estimate; a replay delays the freeing of pages by it. Neighbour:
//! [`super::readers`] finds when readers of single objects were gone.

use super::frames::Slab;

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
        none_waits_longer(&mut ends);
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

/// Of times in order, each with its end: none ends later than those after it.
pub(super) fn none_waits_longer(ends: &mut [(u64, u64)]) {
    let mut earliest = u64::MAX;
    for (_, end) in ends.iter_mut().rev() {
        earliest = earliest.min(*end);
        *end = earliest;
    }
}

fn lower(times: &mut [u64], part: usize) -> Option<u64> {
    times.sort_unstable();
    times.get(times.len() / part).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slabs of caches, each with its last free at 0 and its end.
    fn delays_of(waits: &[bool], ends: &[(u16, u64)]) -> Vec<u64> {
        let slab = |(nth, (cache, end)): (usize, &(u16, u64))| Slab {
            frame: nth as u64,
            closed_at: Some(*end),
            first_object: nth as u32,
            cache: *cache,
            ..Slab::ONE
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
        let slab = |end| Slab { closed_at: Some(end), ..Slab::ONE };
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
        let slab = |end| Slab { closed_at: Some(end), ..Slab::ONE };
        let slabs: Vec<Slab> = (0..32).map(|nth| slab(100 + nth)).collect();
        let of = |by_sheaves| delays(&[true], by_sheaves, &slabs, &vec![Some(0); 32]);
        assert_eq!((of(false), of(true)), (vec![108], vec![102]));
    }

    #[test]
    fn a_cache_that_kept_its_empty_slabs_takes_the_time_of_all() {
        let kept = (0..8).map(|_| (0, 5000));
        let ends: Vec<(u16, u64)> = kept.chain((0..40).map(|_| (1, 100))).collect();
        assert_eq!(delays_of(&[true, true], &ends), [100, 100]);
    }
}
