//! What share of its calls a trace shows of each cache, and of which caches it shows enough.
//!
//! A call without an event shows by other events that contradict it ([`crate::prepare::doubts`]), or
//! by the order of free objects ([`super::free_order`]). [`super::check`] adds the curve of the
//! caches of which enough is shown to its report. Invariant: the share depends on the trace alone.

use super::one_step::OneStep;
use crate::prepare::Prepared;

/// Tasks without events hold objects of a cache of which less than this is shown: how many of its
/// slabs are empty is unknown then.
const ENOUGH: f64 = 0.999;

/// Of the frees of some caches, those whose allocation and free are both in the trace, as a share
/// of 1; `None` without a free. What was allocated before the trace counts as shown.
#[must_use]
pub fn share(
    prepared: &Prepared,
    one_step: &OneStep,
    caches: impl Iterator<Item = usize>,
) -> Option<f64> {
    let (mut all, mut missing) = (0, 0);
    for cache in caches {
        let frees = prepared.tally.frees[cache];
        let unseen = prepared.caches[cache].unallocated + one_step.caches[cache].unseen;
        all += frees.all + unseen;
        missing += frees.missed + unseen;
    }
    (all > 0).then(|| 1.0 - missing as f64 / all as f64)
}

/// Of each cache, whether the trace shows enough.
#[must_use]
pub fn enough(prepared: &Prepared, one_step: &OneStep) -> Vec<bool> {
    let is_shown = |cache: usize| {
        let share = share(prepared, one_step, std::iter::once(cache));
        share.is_none_or(|share| share >= ENOUGH)
    };
    (0..prepared.caches.len()).map(is_shown).collect()
}
