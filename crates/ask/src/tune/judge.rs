//! Holds a setting against a load that its search did not see, in orders of the events that the trace
//! allows, too.

use super::{EQUAL_WORK, Point, Score, Search, best, score};
use crate::answer::Answerer;
use crate::axis::Changes;
use crate::load::Loaded;
use crate::question::Question;
use crate::{Error, Listener};
use serde::Serialize;
use slabyard_lab::trace::{Attached, LISTS, SHRINK, Source, Trace};

/// Lowest and highest over the orders of a trace's events.
pub type Interval = (f64, f64);

/// What a load said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Who said it.
    pub load: String,
    /// The setting that the search found without it.
    pub name: String,
    /// Bytes of all slabs in the mean over time, as a part of the default's.
    pub memory: Interval,
    /// Slow-path work, as a part of the default's.
    pub work: Interval,
    /// It is smaller, and takes no more work, in every order.
    pub holds: bool,
}

/// True if the setting is smaller in all scores, and takes no more work.
#[must_use]
pub fn holds(scores: &[Score]) -> bool {
    !scores.is_empty() && scores.iter().all(|it| it.memory < 1.0 && it.work <= EQUAL_WORK)
}

/// Replays a load with a setting and without, as recorded and in `seeds` other orders.
///
/// # Errors
/// As [`Answerer::answer`] and [`Answerer::shaken`].
pub fn scores(
    load: &Answerer<'_>,
    base: &Question,
    changes: &Changes,
    seeds: u64,
) -> Result<Vec<Score>, Error> {
    let each = |seed: u64| {
        let mut answerer = match seed {
            0 => load.clone(),
            _ => load.shaken(seed)?,
        };
        let default = answerer.answer(base, &Vec::new())?;
        Ok(score(&default, &answerer.answer(base, changes)?))
    };
    (0..=seeds).map(each).collect()
}

/// The lowest and the highest of some numbers.
#[must_use]
pub fn interval(each: impl Iterator<Item = f64>) -> Interval {
    each.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| (low.min(it), high.max(it)))
}

/// Tunes on all loads but one, and holds what is best against that one; `None` if nothing is better
/// than the default there.
///
/// # Errors
/// As [`Search::front`] and [`scores`].
pub fn without(
    search: &mut Search<'_>,
    left_out: usize,
    name: &str,
    seeds: u64,
    listener: &dyn Listener,
) -> Result<Option<Verdict>, Error> {
    let on: Vec<usize> = (0..search.loads.len()).filter(|load| *load != left_out).collect();
    let front = search.front(&on, listener)?;
    let Some(Point { name: found, changes, .. }) = best(&front) else { return Ok(None) };
    listener.stage(&format!("judging {found} by {name}"));
    let scores = scores(&search.loads[left_out], search.base, changes, seeds)?;
    listener.clear();
    Ok(Some(Verdict {
        load: name.to_owned(),
        name: found.clone(),
        memory: interval(scores.iter().map(|it| it.memory)),
        work: interval(scores.iter().map(|it| it.work)),
        holds: holds(&scores),
    }))
}

/// A load as two: what happened in the first half of its time, and what happened in the second. Both
/// begin with the counts of the snapshot; the lists that the recorder read are those of the first.
///
/// # Errors
/// The trace cannot be read.
pub fn halves(mut loaded: Loaded) -> Result<[Loaded; 2], Error> {
    let whole = loaded.trace.take_whole().map_err(|error| Error::Cannot(error.into()))?;
    let (first, last) = match (whole.events.first(), whole.events.last()) {
        (Some(first), Some(last)) => (first.time, last.time),
        _ => return Err(Error::Usage("the trace has no event to tune by".into())),
    };
    let middle = first + (last - first) / 2;
    let stays = |attached: &Attached, of: &dyn Fn(u64) -> bool| match attached.name.as_str() {
        LISTS => of(first),
        SHRINK => of(attached.time),
        _ => true,
    };
    let part = |of: &dyn Fn(u64) -> bool| Trace {
        events: whole.events.iter().filter(|event| of(event.time)).copied().collect(),
        names: whole.names.clone(),
        header: whole.header.clone(),
        lost: whole.lost,
        damaged: Vec::new(),
        attached: whole.attached.iter().filter(|it| stays(it, of)).cloned().collect(),
    };
    let [before, after] = [part(&|time| time < middle), part(&|time| time >= middle)];
    let half = |trace: Trace| Loaded {
        trace: Source::from(trace),
        snapshot: loaded.snapshot.clone(),
        start: loaded.start.clone(),
        settings: loaded.settings.clone(),
        traced: loaded.traced,
        is_without_slabs: loaded.is_without_slabs,
    };
    Ok([half(before), half(after)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A setting that is smaller where it was found must not be recommended for a load where it takes
    /// more work, or more memory, in any order.
    #[test]
    fn a_setting_that_does_not_hold_is_refused() {
        let of = |memory, work| Score { memory, peak: memory, parked: 1.0, work };
        assert!(holds(&[of(0.9, 1.0), of(0.91, 1.005)]));
        assert!(!holds(&[of(0.9, 1.0), of(0.9, 1.02)]), "more work");
        assert!(!holds(&[of(0.9, 1.0), of(1.0, 1.0)]), "no smaller");
        assert!(!holds(&[]), "nothing judged it");
        assert_eq!(interval([0.85, 0.9, 0.8].into_iter()), (0.8, 0.9));
    }
}
