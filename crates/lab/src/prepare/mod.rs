//! Turns a trace's events into the steps of a replay, and computes the kernel's own slab counts,
//! with which the replay is compared.
//!
//! A trace names a cache by its first creator, records a free only by address, and does not say
//! what pages are used for. Four passes over the events find the rest:
//!
//! 1. [`naming`]: which cache does an allocation or free concern?
//! 2. [`frames`]: which slab is the object in? Pages hold a slab from their allocation until they
//!    are freed; a frame whose first event concerns an object held a slab before the trace began.
//! 3. [`matching`]: which object of the slab is it, was it live, and which frees
//!    did the trace miss?
//! 4. [`order`]: in which order was the work done, given that an allocation is traced after its
//!    work and a free before it?
//!
//! The result is [`Prepared`]: [`Step`]s that identify objects and slabs by dense numbers, so a
//! replay never looks anything up by address. A first pass over the events finds the slabs, a
//! second one computes totals over all steps ([`Tally`]). For a trace that stays in its file, each
//! replay is one more pass ([`Steps`]). [`truth`] counts the kernel's slabs over time; [`left_out`]
//! finds the caches whose frees the trace misses. Of steps that are held in memory, [`replaced`]
//! finds when maple trees' nodes were freed, and [`readers`] how long sheaves of `kfree_rcu()` wait.
//! [`grace`] estimates how long slabs wait for RCU readers; [`doubts`] detects missing events and a
//! snapshot that belongs to another trace. [`known`] holds the slab lists that the recorder read at
//! the start.
//!
//! The replay and the check use the result; [`crate::trace`] and [`crate::snapshot`] supply the
//! input.

pub mod doubts;
mod error;
pub mod frames;
pub mod grace;
mod input;
pub mod known;
pub mod left_out;
pub mod matching;
pub mod naming;
mod numbers;
mod oddities;
pub mod order;
mod prepared;
mod readers;
mod replaced;
mod steps;
mod tally;
pub mod truth;
mod unshown;

use std::sync::Arc;

use crate::trace::Events;
use grace::GraceEnds;
use numbers::Numbering;
use steps::{Maker, Turns};
use tally::Counting;

pub use error::Error;
pub use frames::Slab;
pub use input::{CacheFacts, CacheNumber, Input, NO_CACHE, TREE_NODES};
pub use matching::{Step, StepKind, Via};
pub use oddities::Oddities;
pub use order::Order;
pub use prepared::{Cache, Prepared};
pub use readers::Readers;
pub use steps::{Iter, Steps, Streamed};
pub use tally::{FirstUse, Frees, Tally};
pub use truth::Truth;

/// Prepares a trace: if its events are in memory, so are the steps; if they stay in a file, each
/// step is made when it is its turn.
pub fn prepare(input: &Input) -> Result<Prepared, Error> {
    check(input)?;
    let mut oddities = Oddities::default();
    let numbering = match input.events {
        Events::Held(_) => Numbering::Own,
        Events::Stored(_) => Numbering::Again,
    };
    let maker = Maker::new(input, numbering, &mut oddities)?;
    let first = first_pass(input, &maker, &mut oddities)?;
    let slabs = Arc::clone(maker.slabs());
    let (mut tally, last_free) = first.counting.finish();
    let waits: Vec<bool> = input.caches.iter().map(|facts| facts.rcu).collect();
    let mut waiting = input.caches.iter().filter(|facts| facts.rcu);
    let by_sheaves = waiting.all(|facts| facts.sheaf_capacity > 0);
    let grace = GraceEnds::of(&waits, &slabs, &last_free);
    let delays = grace::delays(&waits, by_sheaves, &slabs, &last_free).into_iter();
    let reasons = left_out::reasons(&first.unallocated, &tally.frees);
    let cache = |((return_delay_ns, left_out), unallocated): (_, &u64)| Cache {
        return_delay_ns,
        left_out,
        unallocated: *unallocated,
        frees_placed: false,
        gone: false,
    };
    let mut caches: Vec<Cache> = delays.zip(reasons).zip(&first.unallocated).map(cache).collect();
    let known = maker.known.clone();
    let untold = known::untold(input, &slabs, first.untold);
    let mut readers = Readers::default();
    let steps = match input.events {
        Events::Held(_) => {
            let mut steps = matching::sort(first.steps);
            if let Some(nodes) = CacheFacts::of_tree_nodes(input.caches) {
                replaced::place(&mut steps, nodes);
                tally.count_tasks_again(&steps);
                let cache = &mut caches[usize::from(nodes)];
                cache.frees_placed = cache.left_out.is_some();
                // Their refills from CPU slabs (6.18) are foretold less well.
                if by_sheaves && left_out::makes_most(&slabs, nodes) {
                    cache.left_out = None;
                }
            }
            let sheaves = input.caches.iter().map(|facts| facts.sheaf_capacity);
            readers = Readers::of(&steps, &slabs, &sheaves.collect::<Vec<u32>>());
            Steps::Held(Arc::new(steps))
        }
        Events::Stored(stored) => {
            let streamed = Streamed::new(stored.clone(), maker, first.steps, first.nr_steps);
            Steps::Streamed(Arc::new(streamed))
        }
    };
    Ok(Prepared {
        caches,
        readers,
        slabs,
        steps,
        live_at_start: first.live_at_start,
        untold,
        known,
        grace,
        tally,
        span: input.events.span(),
        oddities,
    })
}

/// What the first pass over the steps gives.
struct FirstPass {
    /// All, or those that later passes could not hold back until it is their turn; in the
    /// trace's order.
    steps: Vec<Step>,
    nr_steps: usize,
    live_at_start: Vec<bool>,
    untold: Vec<u32>,
    unallocated: Vec<u64>,
    counting: Counting,
}

fn first_pass(input: &Input, maker: &Maker, oddities: &mut Oddities) -> Result<FirstPass, Error> {
    let is_held = matches!(input.events, Events::Held(_));
    let mut making = maker.begin();
    let mut counting = Counting::new(input.caches.len(), maker.slabs());
    let (mut steps, mut nr_steps) = (Vec::new(), 0);
    let mut turns = Turns::default();
    let mut pass = input.events.pass()?;
    while let Some(events) = pass.next_block()? {
        turns.block(events);
        making.add(events)?;
        let made = &mut making.matching.steps;
        nr_steps += made.len();
        made.iter().for_each(|step| counting.add(step));
        steps.extend(made.drain(..).filter(|step| is_held || turns.is_early(step)));
    }
    oddities.add(&making.matching.oddities);
    let nr_objects = making.matching.nr_objects() as usize;
    let untold = making.matching.untold();
    let unallocated = making.matching.unallocated;
    let mut live_at_start = making.matching.live_at_start;
    live_at_start.resize(nr_objects, false);
    Ok(FirstPass { steps, nr_steps, live_at_start, untold, unallocated, counting })
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
