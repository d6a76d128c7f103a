//! How long a cache's slabs wait for RCU readers before their pages are freed.
//!
//! Caches with `SLAB_TYPESAFE_BY_RCU` free a slab's pages after a grace period, whose length
//! depends on the machine and the load: medians of 15 to 40 ms were measured. The trace shows it:
//! the time from the last free in a slab to the free of its pages is the time for which the empty
//! slab was kept on a list, plus the grace period. The estimate is therefore the lower quartile of
//! these times: over the cache's slabs or, if few of them were freed or they waited on lists much
//! longer, over all such caches.
//!
//! Neighbours: [`super::prepare`] asks for the estimate; a replay delays the freeing of pages by
//! it.

use super::frames::Slab;

/// Where the trace says nothing.
pub const UNKNOWN_NS: u64 = 18_000_000;

/// Ends of slabs from which a cache's own time is estimated.
const LEAST_ENDS: usize = 8;
/// A cache whose time is this many times that of all caches waited for other things.
const MOST_TIMES: u64 = 3;

/// The delay of each cache that waits for readers, and 0 of the others; by the last free that
/// is traced in each slab.
#[must_use]
pub fn delays(waits: &[bool], slabs: &[Slab], last_free: &[Option<u64>]) -> Vec<u64> {
    let mut waited = vec![Vec::new(); waits.len()];
    for (slab, freed) in slabs.iter().zip(last_free) {
        if let (Some(closed), Some(freed), true) =
            (slab.closed_at, freed, waits[slab.cache as usize])
        {
            waited[slab.cache as usize].push(closed.saturating_sub(*freed));
        }
    }
    let mut all = waited.concat();
    let of_all = lower_quartile(&mut all).unwrap_or(UNKNOWN_NS);
    let delay = |(waits, ends): (&bool, &mut Vec<u64>)| match waits {
        false => 0,
        true if ends.len() < LEAST_ENDS => of_all,
        true => {
            let own = lower_quartile(ends).unwrap_or(of_all);
            if own > of_all.saturating_mul(MOST_TIMES) { of_all } else { own }
        }
    };
    waits.iter().zip(&mut waited).map(delay).collect()
}

fn lower_quartile(times: &mut [u64]) -> Option<u64> {
    times.sort_unstable();
    times.get(times.len() / 4).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slabs of caches, each with its last free at 0 and its end.
    fn delays_of(waits: &[bool], ends: &[(u16, u64)]) -> Vec<u64> {
        let slab = |(nth, (cache, end)): (usize, &(u16, u64))| Slab {
            frame: nth as u64,
            opened_at: 0,
            closed_at: Some(*end),
            closed_by: None,
            first_object: nth as u32,
            objects: 1,
            cache: *cache,
            order: 0,
            initial: true,
        };
        let slabs: Vec<Slab> = ends.iter().enumerate().map(slab).collect();
        delays(waits, &slabs, &vec![Some(0); slabs.len()])
    }

    #[test]
    fn the_trace_tells_the_grace_period() {
        let many: Vec<(u16, u64)> = (0..40).map(|nth| (1, 100 + nth)).collect();
        assert_eq!(delays_of(&[false, true, true], &many), [0, 110, 110]);
        assert_eq!(delays_of(&[false, true], &[]), [0, UNKNOWN_NS]);
    }

    #[test]
    fn a_cache_that_kept_its_empty_slabs_takes_the_time_of_all() {
        let kept = (0..8).map(|_| (0, 5000));
        let ends: Vec<(u16, u64)> = kept.chain((0..40).map(|_| (1, 100))).collect();
        assert_eq!(delays_of(&[true, true], &ends), [100, 100]);
    }
}
