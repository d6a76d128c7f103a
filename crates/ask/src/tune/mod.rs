//! Settings on the front of memory against slow-path work for some loads, and whether the best of them
//! holds on a load that the search did not see.
//!
//! The search replays a coarse grid, then moves from the points of the front along one setting at a
//! time (coordinate descent) until that finds no better point. Neighbours: [`crate::answers`] replays,
//! [`knobs`] has the settings and how a kernel is given them, [`judge`] holds a point against other
//! loads. Invariants: the same loads give the same result; a load that judges takes no part in the
//! search.

pub mod judge;
pub mod knobs;

use crate::answer::{Answer, Answerer};
use crate::answers::{self, Task};
use crate::axis::{self, Changes};
use crate::load::Loaded;
use crate::question::Question;
use crate::{Error, Listener, Silent};
use knobs::Knob;
use serde::Serialize;
use slabyard_lab::replay::contend::COSTS;
use std::collections::BTreeMap;

/// Passes of the descent: each replays the neighbours of all points of the front.
const PASSES: usize = 4;

/// Slow-path work up to this part of the default's counts as equal: what a kernel developer lets a
/// benchmark lose to a change that saves memory.
pub const EQUAL_WORK: f64 = 1.01;
/// A setting that leaves more than this part of the memory is not worth a reboot.
const LEAST_GAIN: f64 = 0.99;

/// What a point takes, as parts of what the default takes, in the mean over loads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Score {
    /// Bytes of all slabs, in the mean over time.
    pub memory: f64,
    /// Most bytes of slabs at a time.
    pub peak: f64,
    /// Free bytes that CPUs and barns hold; 1 where the default has none.
    pub parked: f64,
    /// Nanoseconds of calls beyond their fast path: [`Work::slow_path_ns`](crate::answer::Work::slow_path_ns).
    pub work: f64,
}

impl Score {
    /// True if it is smaller by a hundredth or more, and does as much slow-path work or less.
    #[must_use]
    pub fn is_better(&self) -> bool {
        self.memory <= LEAST_GAIN && self.peak <= 1.0 && self.work <= EQUAL_WORK
    }

    fn beats(&self, other: &Score) -> bool {
        let no_worse = self.memory <= other.memory && self.work <= other.work;
        no_worse && (self.memory < other.memory || self.work < other.work)
    }
}

/// A point and its score.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// As [`axis::name`] puts it; `base` is the default.
    pub name: String,
    /// The settings.
    #[serde(skip)]
    pub changes: Changes,
    /// Against the default.
    pub score: Score,
}

/// What an answer takes, as parts of what the default's does.
#[must_use]
pub fn score(default: &Answer, answer: &Answer) -> Score {
    let part = |of: f64, from: f64| if from > 0.0 { of / from } else { 1.0 };
    let memory = |it: &Answer| it.memory.mean + it.memory.untouched.unwrap_or(0) as f64;
    Score {
        memory: part(memory(answer), memory(default)),
        peak: part(answer.memory.whole_peak() as f64, default.memory.whole_peak() as f64),
        parked: part(answer.memory.parked, default.memory.parked),
        work: part(answer.work.slow_path_ns(COSTS), default.work.slow_path_ns(COSTS)),
    }
}

/// The points that no other beats, smallest first, and the default.
#[must_use]
pub fn front(points: &[Point]) -> Vec<Point> {
    let beaten = |point: &Point| points.iter().any(|other| other.score.beats(&point.score));
    let mut front: Vec<Point> =
        points.iter().filter(|it| it.changes.is_empty() || !beaten(it)).cloned().collect();
    front.sort_by(|a, b| {
        let key = |it: &Point| (it.score.memory, it.score.work);
        key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal).then(a.name.cmp(&b.name))
    });
    // Settings that come to the same are shown once, by the fewest.
    front.dedup_by(|b, a| a.score == b.score && !b.changes.is_empty());
    front
}

/// The smallest point of a front that does no more work than the default, if one is smaller.
#[must_use]
pub fn best(front: &[Point]) -> Option<&Point> {
    front.iter().find(|point| point.score.is_better())
}

/// Loads, and what was found out of them.
pub struct Search<'a> {
    loads: Vec<Answerer<'a>>,
    base: &'a Question,
    knobs: Vec<&'static Knob>,
    answers: Vec<BTreeMap<String, Answer>>,
}

impl<'a> Search<'a> {
    /// Prepares the loads, and finds the settings that their kernels have.
    ///
    /// # Errors
    /// As [`Answerer::new`], and if the kernel has none of the settings.
    pub fn new(
        loaded: &'a [Loaded],
        base: &'a Question,
        listener: &dyn Listener,
    ) -> Result<Search<'a>, Error> {
        let mut knobs: Vec<&'static Knob> = knobs::KNOBS.iter().collect();
        let mut loads = Vec::new();
        for loaded in loaded {
            let answerer = Answerer::new(loaded, COSTS, listener)?;
            answerer.settings(base, &Silent)?;
            knobs.retain(|knob| {
                let value = knob.values.iter().flatten().next().copied().unwrap_or_default();
                let changes = vec![(knob.key.to_owned(), value.to_owned())];
                let taken = base.with(&changes).and_then(|it| answerer.settings(&it, &Silent));
                taken.is_ok()
            });
            loads.push(answerer);
        }
        if knobs.is_empty() {
            return Err(Error::Usage(
                "this kernel has none of the settings that tune varies".into(),
            ));
        }
        let answers = vec![BTreeMap::new(); loads.len()];
        Ok(Search { loads, base, knobs, answers })
    }

    /// Replays what is not known yet of the points, on these loads.
    fn replay(
        &mut self,
        on: &[usize],
        points: &[Changes],
        listener: &dyn Listener,
    ) -> Result<(), Error> {
        for load in on {
            let known = &self.answers[*load];
            let new = |changes: &&Changes| !known.contains_key(&axis::name(changes));
            let points: Vec<Changes> = points.iter().filter(new).cloned().collect();
            if points.is_empty() {
                continue;
            }
            let task = Task { base: self.base, points: &points, contention: None };
            let answers = answers::all(&mut self.loads[*load], &task, listener)?;
            let named = points.iter().map(|changes| axis::name(changes)).zip(answers);
            self.answers[*load].extend(named);
        }
        Ok(())
    }

    /// The score of a point that was replayed on all of these loads.
    fn score(&self, on: &[usize], changes: &Changes) -> Option<Score> {
        let each = on.iter().map(|load| {
            let known = &self.answers[*load];
            Some(score(known.get("base")?, known.get(&axis::name(changes))?))
        });
        let each: Vec<Score> = each.collect::<Option<_>>()?;
        let mean = |of: fn(&Score) -> f64| each.iter().map(of).sum::<f64>() / each.len() as f64;
        Some(Score {
            memory: mean(|it| it.memory),
            peak: mean(|it| it.peak),
            parked: mean(|it| it.parked),
            work: mean(|it| it.work),
        })
    }

    /// The front for these loads.
    ///
    /// # Errors
    /// As [`answers::all`].
    pub fn front(&mut self, on: &[usize], listener: &dyn Listener) -> Result<Vec<Point>, Error> {
        let mut points = knobs::grid(&self.knobs);
        self.replay(on, &points, listener)?;
        for _ in 0..PASSES {
            let front = self.front_of(on, &points);
            let near = front.iter().flat_map(|it| knobs::neighbours(&self.knobs, &it.changes));
            let mut new: Vec<Changes> = near.filter(|it| !points.contains(it)).collect();
            new.sort();
            new.dedup();
            if new.is_empty() {
                break;
            }
            self.replay(on, &new, listener)?;
            points.extend(new);
        }
        Ok(self.front_of(on, &points))
    }

    fn front_of(&self, on: &[usize], points: &[Changes]) -> Vec<Point> {
        let scored = points.iter().filter_map(|changes| {
            let score = self.score(on, changes)?;
            Some(Point { name: axis::name(changes), changes: changes.clone(), score })
        });
        front(&scored.collect::<Vec<_>>())
    }

    /// How many replays were made.
    #[must_use]
    pub fn replays(&self) -> usize {
        self.answers.iter().map(BTreeMap::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &str, memory: f64, work: f64) -> Point {
        let changes = if name == "base" { vec![] } else { vec![(name.into(), "1".into())] };
        let score = Score { memory, peak: memory.min(1.0), parked: 1.0, work };
        Point { name: name.into(), changes, score }
    }

    #[test]
    fn the_front_has_what_nothing_beats_and_the_default() {
        let points = [
            point("base", 1.0, 1.0),
            point("a", 0.8, 1.2),
            point("b", 0.9, 0.9),
            point("c", 0.95, 0.95),
            point("d", 1.3, 0.5),
        ];
        let found = front(&points);
        let names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "base", "d"]);
        assert_eq!(best(&found).map(|it| it.name.as_str()), Some("b"));
        assert_eq!(best(&front(&points[..2])), None, "smaller for more work is no recommendation");
    }
}
