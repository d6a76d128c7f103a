//! Settings on the front of memory against slow-path work for some loads, and whether the best of them
//! holds on a load that the search did not see.
//!
//! The search replays a coarse grid, then moves from the points of the front along one setting at a
//! time (coordinate descent) until that finds no better point. Neighbours: `runs` replays, `front` compares
//! points, [`knobs`] has the settings and how a kernel is given them, [`single`] sets single caches,
//! [`judge`] holds a point against other loads, and [`tuned`] is the whole answer.
//! Invariants: the same loads give the same result; a load that judges takes no part in the search.

mod front;
pub mod judge;
pub mod knobs;
mod runs;
pub mod single;
pub mod tuned;

pub use front::{Point, Score};

use crate::answer::Answerer;
use crate::axis::{self, Changes};
use crate::load::Loaded;
use crate::question::Question;
use crate::{Error, Listener, Silent};
use front::{best, front};
use knobs::Knob;
use runs::Runs;
use slabyard_lab::replay::contend::COSTS;

/// Passes of the descent: each replays the neighbours of all points of the front.
const PASSES: usize = 4;

/// Loads, and what was found out of them.
pub struct Search<'a> {
    loads: Vec<Runs<'a>>,
    knobs: Vec<&'static Knob>,
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
            loads.push(Runs::new(answerer, base)?);
        }
        if knobs.is_empty() {
            return Err(Error::Usage(
                "this kernel has none of the settings that tune varies".into(),
            ));
        }
        Ok(Search { loads, knobs })
    }

    /// Replays what is not known yet of the points, on these loads; of caches with these names alone,
    /// if any are given.
    fn replay(
        &mut self,
        on: &[usize],
        points: &[Changes],
        names: Option<&[String]>,
        listener: &dyn Listener,
    ) -> Result<(), Error> {
        on.iter().try_for_each(|load| self.loads[*load].replay(points, names, listener))
    }

    /// The score of a point that was replayed on all of these loads: the mean over them.
    fn score(&self, on: &[usize], changes: &Changes) -> Option<Score> {
        mean(on.iter().map(|load| {
            let runs = &self.loads[*load];
            Some(runs.score(runs.sets(&Changes::new())?, runs.sets(changes)?))
        }))
    }

    /// The front for these loads.
    ///
    /// # Errors
    /// As [`Answerer::answer`].
    pub fn front(&mut self, on: &[usize], listener: &dyn Listener) -> Result<Vec<Point>, Error> {
        let mut points = knobs::grid(&self.knobs);
        self.replay(on, &points, None, listener)?;
        let mut scored = self.scored(on, &points);
        for _ in 0..PASSES {
            let front = front(&scored);
            let near = front.iter().flat_map(|it| knobs::neighbours(&self.knobs, &it.changes));
            let mut new: Vec<Changes> = near.filter(|it| !points.contains(it)).collect();
            new.sort();
            new.dedup();
            if new.is_empty() {
                break;
            }
            self.replay(on, &new, None, listener)?;
            scored.extend(self.scored(on, &new));
            points.extend(new);
        }
        Ok(front(&scored))
    }

    /// Points that were replayed, with their scores.
    fn scored(&self, on: &[usize], points: &[Changes]) -> Vec<Point> {
        let scored = points.iter().filter_map(|changes| {
            let score = self.score(on, changes)?;
            Some(Point { name: axis::name(changes), changes: changes.clone(), score })
        });
        scored.collect()
    }

    /// How many settings were compared, and how many replays that took.
    #[must_use]
    pub fn effort(&self) -> (usize, usize) {
        let of = |of: fn(&Runs<'a>) -> usize| self.loads.iter().map(of).sum();
        (of(Runs::points), of(Runs::replays))
    }
}

/// The mean of scores over loads, if each has one.
fn mean(each: impl Iterator<Item = Option<Score>>) -> Option<Score> {
    let each: Vec<Score> = each.collect::<Option<_>>()?;
    let mean = |of: fn(&Score) -> f64| each.iter().map(of).sum::<f64>() / each.len() as f64;
    Some(Score {
        memory: mean(|it| it.memory),
        peak: mean(|it| it.peak),
        parked: mean(|it| it.parked),
        work: mean(|it| it.work),
    })
}
