//! Settings for single caches: what sysfs files of each take, for the caches that hold most memory or
//! take most work.
//!
//! Each cache has options, each with its memory and its work, of which it takes one; together they may
//! take a limit of the one, and as little of the other as that allows. This is the multiple-choice
//! knapsack problem; [`choose`] takes the steps of the options' convex hulls in order of what they save for their
//! work (Sinha and Zoltners, "The multiple-choice knapsack problem", Operations Research 27, 1979), which
//! is the best choice but for the last step that did not fit.
//!
//! Neighbours: `runs` knows what a cache takes alone; [`super::judge`] holds the choice against other
//! loads. Invariant: on the loads of the search what is chosen takes no more of what is limited than the
//! default or the setting for all that it stands beside, but half a hundredth of memory for less work.

use super::front::{EQUAL_WORK as EQUAL, Score};
use super::knobs::{self, Knob};
use super::runs::Sets;
use super::{Search, mean};
use crate::axis::{self, Changes};
use crate::{Error, Listener};
use serde::Serialize;

/// Settings whose files in `/sys/kernel/slab/CACHE` can be written.
pub const WRITABLE: [&str; 2] = ["min_partial", "cpu_partial"];
/// Caches that are looked at, at most: nobody writes hundreds of files for a thousandth each.
const MOST_CACHES: usize = 12;
/// The looked-at caches have this part of the memory, and of the work.
const COVERED: f64 = 0.9;
/// A cache for which this part of all memory is not saved keeps its settings.
const LEAST_PART: f64 = 0.001;
/// Memory that less work may take, as a part of the default's.
const SPENT_MEMORY: f64 = 0.005;
/// Sums are that far off at most.
const ROUNDING: f64 = 1e-9;

/// What is to be little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Memory, for no more work.
    Memory,
    /// Slow-path work, for next to no more memory.
    Work,
}

impl Goal {
    /// Both.
    pub const ALL: [Goal; 2] = [Goal::Memory, Goal::Work];

    /// True if it was reached on a load that took no part in the search; what is limited may be a
    /// hundredth more, as loads differ.
    #[must_use]
    pub fn holds(self, score: &Score) -> bool {
        match self {
            Goal::Memory => score.memory < 1.0 && score.work <= EQUAL,
            Goal::Work => score.work < 1.0 && score.memory <= EQUAL,
        }
    }

    /// True if the gain is worth the writes: a hundredth of the memory, a twentieth of the work.
    fn is_reached(self, before: &Score, score: &Score) -> bool {
        match self {
            Goal::Memory => score.is_better() && before.memory - score.memory >= 0.01,
            Goal::Work => before.work - score.work >= 0.05 && score.peak <= EQUAL,
        }
    }
}

/// What is written for one cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Single {
    /// Its name in sysfs.
    pub cache: String,
    /// Files and values.
    pub writes: Changes,
}

/// What is written for some caches beside a setting for all.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Singles {
    /// What they make little.
    pub goal: Goal,
    /// The setting for all, as [`axis::name`] puts it.
    pub beside: String,
    /// The caches, in the order of their names.
    pub caches: Vec<Single>,
    /// Against the default.
    pub score: Score,
}

impl Singles {
    /// The commands that write them.
    #[must_use]
    pub fn apply(&self) -> Vec<String> {
        let of = |single: &Single| -> Vec<String> {
            let to = &single.cache;
            let line = |(file, value): &(String, String)| {
                format!("as root: echo {value} >/sys/kernel/slab/{to}/{file}")
            };
            single.writes.iter().map(line).collect()
        };
        self.caches.iter().flat_map(of).collect()
    }
}

/// One way to run a cache: of memory and work what is to be little, and what is limited, as parts of
/// what all caches take by default.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CacheOption {
    /// Index in the caller's list.
    nth: usize,
    little: f64,
    limited: f64,
}

impl Search<'_> {
    /// The files of single caches that this kernel lets be written.
    #[must_use]
    pub fn writable(&self) -> Vec<&'static str> {
        let has = |key: &&'static str| self.knobs.iter().any(|knob| knob.key == *key);
        WRITABLE.into_iter().filter(has).collect()
    }

    /// What to write for single caches beside a setting for all, by these loads; `None` if that is not
    /// worth it, or the kernel takes no such writes.
    ///
    /// # Errors
    /// As [`Search::front`].
    pub fn singles(
        &mut self,
        on: &[usize],
        beside: &Changes,
        goal: Goal,
        listener: &dyn Listener,
    ) -> Result<Option<Singles>, Error> {
        let knobs: Vec<&'static Knob> =
            self.knobs.iter().filter(|knob| WRITABLE.contains(&knob.key)).copied().collect();
        let mut points = knobs::combinations(&knobs, beside);
        // Of what comes to the same the fewest writes are chosen.
        points.sort_by_key(Vec::len);
        self.replay(on, &[Changes::new(), beside.clone()], None, listener)?;
        let names = self.heaviest(on, beside);
        self.replay(on, &points, Some(&names), listener)?;
        let Some(before) = self.score(on, beside) else { return Ok(None) };
        let options = |name: &String| -> Vec<CacheOption> {
            let option = |(nth, point)| {
                let (memory, work) = self.part_of(on, name, point)?;
                let (little, limited) = match goal {
                    Goal::Memory => (memory, work),
                    Goal::Work => (work, memory),
                };
                Some(CacheOption { nth, little, limited })
            };
            points.iter().enumerate().filter_map(option).collect()
        };
        let all: Vec<Vec<CacheOption>> = names.iter().map(options).collect();
        let own = points.iter().position(|point| point == beside).unwrap_or(0);
        let chosen = choose(
            &all,
            own,
            match goal {
                Goal::Memory => (1.0 - before.work).max(0.0),
                Goal::Work => SPENT_MEMORY,
            },
        );
        let single = |(cache, nth): (&String, usize)| {
            let is_new = |pair: &&(String, String)| !beside.contains(pair);
            let writes = points[nth].iter().filter(is_new).cloned().collect();
            (nth != own).then(|| Single { cache: cache.clone(), writes })
        };
        let mut caches: Vec<Single> = names.iter().zip(chosen).filter_map(single).collect();
        caches.sort_by(|a, b| a.cache.cmp(&b.cache));
        let Some(score) = self.score_of_singles(on, beside, &caches) else { return Ok(None) };
        let singles = Singles { goal, beside: axis::name(beside), caches, score };
        Ok(Some(singles).filter(|found| goal.is_reached(&before, &found.score)))
    }

    /// Names of the caches with most of the memory, and most of the work, of these loads.
    fn heaviest(&self, on: &[usize], beside: &Changes) -> Vec<String> {
        let mut names: Vec<&String> =
            on.iter().flat_map(|load| self.loads[*load].names()).collect();
        names.sort();
        names.dedup();
        let parts: Vec<(&String, (f64, f64))> =
            names.iter().filter_map(|it| Some((*it, self.part_of(on, it, beside)?))).collect();
        let mut heavy = Vec::new();
        for of in [|it: &(f64, f64)| it.0, |it: &(f64, f64)| it.1] {
            let mut parts: Vec<(&String, f64)> =
                parts.iter().map(|(name, part)| (*name, of(part))).collect();
            parts.sort_by(|a, b| b.1.total_cmp(&a.1));
            let all: f64 = parts.iter().map(|part| part.1).sum();
            let mut seen = 0.0;
            for (name, part) in parts.into_iter().take(MOST_CACHES / 2) {
                if seen < COVERED * all {
                    heavy.push(name.clone());
                }
                seen += part;
            }
        }
        heavy.sort();
        heavy.dedup();
        heavy
    }

    /// What a cache takes at a point, as parts of what all caches take by default: the mean over the
    /// loads that have it.
    fn part_of(&self, on: &[usize], name: &str, point: &Changes) -> Option<(f64, f64)> {
        let of_load = |load: &usize| {
            let runs = &self.loads[*load];
            let cache = runs.number_of(name)?;
            runs.part_of(runs.sets(&Changes::new())?, cache, runs.sets(point)?[cache])
        };
        let each: Vec<(f64, f64)> = on.iter().filter_map(of_load).collect();
        let nr = on.len() as f64;
        let sum = |of: fn(&(f64, f64)) -> f64| each.iter().map(of).sum::<f64>() / nr;
        (!each.is_empty()).then(|| (sum(|it| it.0), sum(|it| it.1)))
    }

    /// The score of writes for single caches; `None` where they were not replayed.
    fn score_of_singles(&self, on: &[usize], beside: &Changes, caches: &[Single]) -> Option<Score> {
        let of_load = |load: &usize| {
            let runs = &self.loads[*load];
            let mut sets: Sets = runs.sets(beside)?.clone();
            for single in caches {
                // A load may be of a kernel without it.
                let Some(cache) = runs.number_of(&single.cache) else { continue };
                sets[cache] = runs.sets(&knobs::with(beside, &single.writes))?[cache];
            }
            Some(runs.score(runs.sets(&Changes::new())?, &sets))
        };
        mean(on.iter().map(of_load))
    }

    /// The score of writes for single caches on a load that may not have been replayed with them.
    ///
    /// # Errors
    /// As [`Search::front`].
    pub(super) fn judge_singles(
        &mut self,
        load: usize,
        beside: &Changes,
        caches: &[Single],
        listener: &dyn Listener,
    ) -> Result<Option<Score>, Error> {
        self.replay(&[load], &[Changes::new(), beside.clone()], None, listener)?;
        for single in caches {
            let point = knobs::with(beside, &single.writes);
            self.replay(&[load], &[point], Some(std::slice::from_ref(&single.cache)), listener)?;
        }
        Ok(self.score_of_singles(&[load], beside, caches))
    }
}

/// For each cache the option to take, so that they take as little as possible of the one and at most
/// `more` of what is limited above what they take by the option `own`.
fn choose(caches: &[Vec<CacheOption>], own: usize, more: f64) -> Vec<usize> {
    let mut chosen: Vec<usize> = Vec::new();
    let mut steps: Vec<(f64, usize, CacheOption, CacheOption)> = Vec::new();
    let mut left = more;
    for (cache, options) in caches.iter().enumerate() {
        let before = options.iter().find(|it| it.nth == own);
        let hull = hull(options);
        let (Some(before), Some(first)) = (before, hull.first()) else {
            chosen.push(own);
            continue;
        };
        chosen.push(first.nth);
        left += before.limited - first.limited;
        steps.extend(hull.windows(2).map(|two| {
            let saved = (two[0].little - two[1].little) / (two[1].limited - two[0].limited);
            (saved, cache, two[0], two[1])
        }));
    }
    steps.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, cache, from, to) in steps {
        if chosen[cache] == from.nth && to.limited - from.limited <= left + ROUNDING {
            left -= to.limited - from.limited;
            chosen[cache] = to.nth;
        }
    }
    // What saves next to nothing stays as it was, if the limit allows it.
    for (cache, options) in caches.iter().enumerate() {
        let of = |nth: usize| options.iter().find(|it| it.nth == nth);
        let (Some(before), Some(now)) = (of(own), of(chosen[cache])) else { continue };
        let (saved, spent) = (before.little - now.little, before.limited - now.limited);
        if saved.abs() < LEAST_PART && spent <= left + ROUNDING {
            left -= spent;
            chosen[cache] = own;
        }
    }
    chosen
}

/// The options of a cache that are on the lower convex hull, those that take least of what is limited
/// first.
fn hull(options: &[CacheOption]) -> Vec<CacheOption> {
    let mut sorted = options.to_vec();
    sorted.sort_by(|a, b| {
        a.limited.total_cmp(&b.limited).then(a.little.total_cmp(&b.little)).then(a.nth.cmp(&b.nth))
    });
    let mut hull: Vec<CacheOption> = Vec::new();
    for option in sorted {
        if hull.last().is_some_and(|last| option.little >= last.little) {
            continue;
        }
        while let [.., a, b] = hull[..] {
            let is_above = (b.little - a.little) * (option.limited - a.limited)
                >= (option.little - a.little) * (b.limited - a.limited);
            if !is_above {
                break;
            }
            hull.pop();
        }
        hull.push(option);
    }
    hull
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(all: &[(f64, f64)]) -> Vec<CacheOption> {
        let option = |(nth, (little, limited)): (usize, &(f64, f64))| CacheOption {
            nth,
            little: *little,
            limited: *limited,
        };
        all.iter().enumerate().map(option).collect()
    }

    #[test]
    fn options_above_the_hull_are_no_choice() {
        let all = options(&[(0.5, 0.1), (0.45, 0.11), (0.4, 0.2), (0.1, 0.3), (0.2, 0.4)]);
        let kept: Vec<usize> = hull(&all).iter().map(|it| it.nth).collect();
        assert_eq!(kept, [0, 1, 3], "2 is above the line from 1 to 3, and 4 is beaten by 3");
    }

    /// What one cache is spared is spent where it saves most, and no more than that.
    #[test]
    fn what_is_limited_is_spent_where_it_saves_most() {
        let caches = [
            options(&[(0.2, 0.30), (0.21, 0.25)]),
            options(&[(0.5, 0.20), (0.3, 0.25), (0.29, 0.40)]),
        ];
        assert_eq!(choose(&caches, 0, 0.0), [1, 1]);
        assert_eq!(choose(&caches, 0, -0.2), [1, 0], "there is nothing to spend");
        // Against each choice that there is.
        for more in [0.0, 0.01, 0.05, 0.1, 0.2] {
            let found = choose(&caches, 0, more);
            let of = |a: usize, b: usize| {
                let (a, b) = (caches[0][a], caches[1][b]);
                (a.little + b.little, a.limited + b.limited)
            };
            let (memory, work) = of(found[0], found[1]);
            assert!(work <= 0.5 + more + 1e-9, "{more}: {found:?}");
            let mut every = (0..2).flat_map(|a| (0..3).map(move |b| of(a, b)));
            // A greedy choice lacks at most its last step.
            let step = 0.02;
            assert!(every.all(|(m, w)| w > 0.5 + more || m + step >= memory), "{more}: {found:?}");
        }
    }

    #[test]
    fn what_saves_next_to_nothing_is_left_alone() {
        let caches = [options(&[(0.5, 0.2), (0.4999, 0.2)]), options(&[(0.4, 0.1), (0.3, 0.1)])];
        assert_eq!(choose(&caches, 0, 0.0), [0, 1]);
    }
}
