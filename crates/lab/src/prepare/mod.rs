//! From a trace's events to the steps of a replay, and to the truth that it is
//! held against.
//!
//! A trace names caches by their first creator, frees by address alone, and tells
//! of pages without saying whose. Four walks over the events settle that:
//!
//! 1. [`naming`]: which cache does an allocation or a free speak of?
//! 2. [`frames`]: which slab is the object in? Pages got open a slab, pages given
//!    back close it, and a frame that first shows through an object held a slab
//!    before the trace began.
//! 3. [`matching`]: which object of the slab is it, was it live, and which frees
//!    did the trace miss?
//! 4. [`order`]: in which order did the work happen, as an allocation is traced
//!    after its work and a free before it?
//!
//! The result is [`Prepared`]: [`Step`]s that name objects and slabs by dense
//! numbers, so that a replay looks nothing up by address. [`truth`] counts the
//! kernel's slabs over time from the same slabs; [`left_out`] finds the caches whose frees the
//! trace loses, [`grace`] how long slabs wait for readers; [`doubts`] says whether rows are missing, or the
//! snapshot is another's.
//!
//! Above: the replay and its check. Below: [`crate::trace`], [`crate::snapshot`].

pub mod doubts;
mod error;
pub mod frames;
pub mod grace;
mod input;
pub mod left_out;
pub mod matching;
pub mod naming;
mod oddities;
pub mod order;
mod prepared;
pub mod truth;

use std::ops::RangeInclusive;

use crate::event::Event;

pub use error::Error;
pub use frames::Slab;
pub use input::{CacheFacts, CacheNumber, Input, NO_CACHE};
pub use matching::{Op, Step};
pub use oddities::Oddities;
pub use order::Order;
pub use prepared::{Cache, Prepared};
pub use truth::Truth;

/// Prepares a trace.
pub fn prepare(input: &Input) -> Result<Prepared, Error> {
    check(input)?;
    let mut oddities = Oddities::default();
    let cache_of = naming::name_events(input, &mut oddities);
    let placed = frames::place_events(input, &cache_of, &mut oddities)?;
    let matched = matching::match_events(input, &placed, &mut oddities);
    let steps = matching::sort(matched.steps);
    Ok(Prepared {
        caches: caches(input, &placed.slabs, &steps, &matched.unallocated),
        slabs: placed.slabs,
        steps,
        live_at_start: matched.live_at_start,
        span: span(input.events),
        oddities,
    })
}

fn caches(input: &Input, slabs: &[Slab], steps: &[Step], unallocated: &[u64]) -> Vec<Cache> {
    let waits: Vec<bool> = input.caches.iter().map(|facts| facts.rcu).collect();
    let delays = grace::delays(&waits, slabs, steps);
    let reasons = left_out::reasons(unallocated, steps);
    let cache = |((return_delay_ns, left_out), unallocated): (_, &u64)| Cache {
        return_delay_ns,
        left_out,
        unallocated: *unallocated,
    };
    delays.into_iter().zip(reasons).zip(unallocated).map(cache).collect()
}

fn span(events: &[Event]) -> RangeInclusive<u64> {
    // Times of several CPUs may cross by a little.
    let first = events.iter().map(|event| event.time).min().unwrap_or(0);
    let last = events.iter().map(|event| event.time).max().unwrap_or(0);
    first..=last
}

fn check(input: &Input) -> Result<(), Error> {
    if input.caches.len() > NO_CACHE as usize {
        return Err(Error::TooManyCaches(input.caches.len()));
    }
    if !(12..=16).contains(&input.frames.page_shift) {
        return Err(Error::PageShift(input.frames.page_shift));
    }
    if u32::try_from(input.events.len()).is_err() {
        return Err(Error::TooLong("events"));
    }
    for facts in input.caches {
        let wrong = |what| Err(Error::Facts { id: facts.id.clone(), what });
        if facts.slab_size == 0 {
            return wrong("its objects have no size");
        }
        if facts.objects == 0 {
            return wrong("its slabs hold no object");
        }
        if facts.order > input::MAX_ORDER {
            return wrong("its order is above 10");
        }
        let bytes = 1u64 << (input.frames.page_shift + u32::from(facts.order));
        if u64::from(facts.objects) * u64::from(facts.slab_size) > bytes {
            return wrong("its objects do not fit its slabs");
        }
    }
    Ok(())
}
