//! Holds a setting against a load that its search did not see.

use super::single::Goal;
use super::{Point, Search, best};
use crate::axis::Changes;
use crate::load::Loaded;
use crate::{Error, Listener};
use serde::Serialize;
use slabyard_lab::edit::cut::part;
use slabyard_lab::trace::{Source, Trace};

/// The lowest and the highest of some numbers.
pub type Interval = (f64, f64);

/// What a load said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Who said it.
    pub load: String,
    /// The setting that the search found without it.
    pub name: String,
    /// Bytes of all slabs in the mean over time, as a part of the default's.
    pub memory: f64,
    /// Slow-path work, as a part of the default's.
    pub work: f64,
    /// It is smaller, and takes no more work.
    pub holds: bool,
}

/// What recordings said of settings that were found without them, each by the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HeldOut {
    /// How many.
    pub recordings: usize,
    /// The lowest and the highest part of the default's memory.
    pub memory: Interval,
    /// The same of its work.
    pub work: Interval,
}

/// The range over the recordings; `None` where fewer than two judged.
#[must_use]
pub fn held_out(verdicts: &[Option<Verdict>]) -> Option<HeldOut> {
    let of = |of: fn(&Verdict) -> f64| interval(verdicts.iter().flatten().map(of));
    let recordings = verdicts.iter().flatten().count();
    let held_out = HeldOut { recordings, memory: of(|it| it.memory), work: of(|it| it.work) };
    (recordings > 1).then_some(held_out)
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
/// As [`Search::front`].
pub fn without(
    search: &mut Search<'_>,
    left_out: usize,
    name: &str,
    listener: &dyn Listener,
) -> Result<Option<Verdict>, Error> {
    let on: Vec<usize> = (0..search.loads.len()).filter(|load| *load != left_out).collect();
    let front = search.front(&on, listener)?;
    let Some(Point { name: found, changes, .. }) = best(&front) else { return Ok(None) };
    listener.stage(&format!("judging {found} by {name}"));
    search.replay(&[left_out], &[Changes::new(), changes.clone()], None, listener)?;
    let score = search.score(&[left_out], changes);
    Ok(score.map(|score| Verdict {
        load: name.to_owned(),
        name: found.clone(),
        memory: score.memory,
        work: score.work,
        holds: Goal::Memory.holds(&score),
    }))
}

/// The same for what is written for single caches, beside what is best for all caches on the other
/// loads, or beside the default.
///
/// # Errors
/// As [`Search::front`].
pub fn singles_without(
    search: &mut Search<'_>,
    left_out: usize,
    name: &str,
    (goal, beside_best): (Goal, bool),
    listener: &dyn Listener,
) -> Result<Option<Verdict>, Error> {
    let on: Vec<usize> = (0..search.loads.len()).filter(|load| *load != left_out).collect();
    let mut beside = Changes::new();
    if beside_best {
        let front = search.front(&on, listener)?;
        beside = best(&front).map(|point| point.changes.clone()).unwrap_or_default();
    }
    let Some(found) = search.singles(&on, &beside, goal, listener)? else { return Ok(None) };
    let score = search.judge_singles(left_out, &beside, &found.caches, listener)?;
    Ok(score.map(|score| Verdict {
        load: name.to_owned(),
        name: format!("{} with {} single caches", found.beside, found.caches.len()),
        memory: score.memory,
        work: score.work,
        holds: goal.holds(&score),
    }))
}

/// A load as two: what happened in the first half of its time, and what happened in the second. Both
/// begin with the counts of the snapshot; the lists that the recorder read are those of the first.
///
/// # Errors
/// The trace cannot be read.
pub fn halves(mut loaded: Loaded) -> Result<[Loaded; 2], Error> {
    let whole = loaded.trace.take_whole().map_err(|error| Error::Cannot(error.into()))?;
    let (Some(first), Some(last)) = (whole.events.first(), whole.events.last()) else {
        return Err(Error::Usage("the trace has no event to tune by".into()));
    };
    let middle = first.time + (last.time - first.time) / 2;
    let half = |trace: Trace| Loaded {
        trace: Source::from(trace),
        snapshot: loaded.snapshot.clone(),
        start: loaded.start.clone(),
        settings: loaded.settings.clone(),
        traced: loaded.traced,
        is_without_slabs: loaded.is_without_slabs,
    };
    Ok([0..middle, middle..u64::MAX].map(|times| half(part(&whole, times))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::Score;

    /// A setting that is smaller where it was found must not be recommended for a load where it takes
    /// more work, or more memory.
    #[test]
    fn a_setting_that_does_not_hold_is_refused() {
        let of = |memory, work| Score { memory, peak: memory, parked: 1.0, work };
        assert!(Goal::Memory.holds(&of(0.91, 1.005)));
        assert!(!Goal::Memory.holds(&of(0.9, 1.02)), "more work");
        assert!(!Goal::Memory.holds(&of(1.0, 1.0)), "no smaller");
        assert!(Goal::Work.holds(&of(1.005, 0.9)));
        assert!(!Goal::Work.holds(&of(1.02, 0.9)), "more memory");
        assert!(!Goal::Work.holds(&of(0.9, 1.0)), "no less work");
        assert_eq!(interval([0.85, 0.9, 0.8].into_iter()), (0.8, 0.9));
    }

    /// The interval is over recordings: one load that judged has none.
    #[test]
    fn one_judge_has_no_interval() {
        let said = |memory| {
            let (load, name) = (format!("{memory}"), "max_order=1".into());
            Some(Verdict { load, name, memory, work: 1.0, holds: true })
        };
        assert_eq!(held_out(&[said(0.9)]), None);
        assert_eq!(held_out(&[said(0.9), None]), None, "one found nothing to judge");
        let range = held_out(&[said(0.9), said(0.8), said(0.95)]).expect("three judged");
        assert_eq!((range.recordings, range.memory, range.work), (3, (0.8, 0.95), (1.0, 1.0)));
    }
}
