//! Points, what they take, and which of them no other beats.
//!
//! Neighbours: `runs` scores, [`super::Search`] moves along the front. Invariant: the default is on it.

use crate::axis::Changes;
use serde::Serialize;

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
    /// Nanoseconds of calls beyond their fast path:
    /// [`Work::slow_path_ns`](crate::answer::Work::slow_path_ns).
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
    /// As [`crate::axis::name`] puts it; `base` is the default.
    pub name: String,
    /// The settings.
    #[serde(skip)]
    pub changes: Changes,
    /// Against the default.
    pub score: Score,
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
