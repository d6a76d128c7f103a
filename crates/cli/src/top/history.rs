//! Values of each cache in earlier samples, and the rates between two samples.
//!
//! Invariants: at most [`LOOKS`] samples are kept per cache, and none of a destroyed cache; times
//! come from a monotonic clock, counted from the start.

use super::short::Rate;
use slabyard_observe::fields::{self, Field};
use slabyard_observe::{Cache, Snapshot, Value};
use slabyard_owners::Activity;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Looks that are kept of each cache.
pub const LOOKS: usize = 120;

/// What is kept of a cache at one look.
#[derive(Clone, Debug)]
pub struct CacheSample {
    /// Time since the first look.
    pub at: Duration,
    /// Live objects.
    pub live: Option<Value>,
    /// Bytes of its slabs.
    pub bytes: Option<Value>,
    objects: Option<Value>,
    slow_paths: Option<Value>,
}

/// What changes, for each second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateKind {
    /// Live objects.
    Live,
    /// Objects that are not free on node partial lists: of these a kernel tells the
    /// exact number.
    Objects,
    /// Memory of the slabs.
    Bytes,
    /// Calls that took the slow path.
    SlowPaths,
}

/// What is counted of a kernel's caches while its call sites are shown, for each second: all of it,
/// not what is left in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrossKind {
    /// Objects that were allocated.
    Allocations,
    /// Objects that were freed.
    Frees,
    /// Bytes of those that were allocated.
    Bytes,
}

/// All caches' last looks.
#[derive(Default)]
pub struct History {
    caches: HashMap<String, VecDeque<CacheSample>>,
    /// Allocations, frees and allocated bytes a second of the caches that were counted last.
    gross: HashMap<String, [f64; 3]>,
}

impl History {
    /// Adds a look, and forgets caches that are not in it.
    pub fn add(&mut self, snapshot: &Snapshot, at: Duration) {
        let mut before = std::mem::take(&mut self.caches);
        for cache in &snapshot.caches {
            let mut looks = before.remove(&cache.name).unwrap_or_default();
            while looks.len() >= LOOKS {
                looks.pop_front();
            }
            looks.push_back(CacheSample::at(at, snapshot, cache));
            self.caches.insert(cache.name.clone(), looks);
        }
    }

    /// Keeps what was counted last; a merged cache has the sum of its names'.
    pub fn count(&mut self, snapshot: &Snapshot, activity: Option<&Activity>) {
        self.gross.clear();
        for rate in activity.iter().flat_map(|activity| &activity.caches) {
            let cache = snapshot.cache(&rate.cache).map_or(&rate.cache, |cache| &cache.name);
            let sum = self.gross.entry(cache.clone()).or_default();
            for (sum, count) in sum.iter_mut().zip([rate.allocations, rate.frees, rate.bytes]) {
                *sum += activity.map_or(0.0, |it| it.a_second(count.unwrap_or(0)));
            }
        }
    }

    /// What was counted of a cache, for each second; `None` if nothing was.
    pub fn gross(&self, cache: &str, kind: GrossKind) -> Option<f64> {
        self.gross.get(cache).map(|counted| counted[kind as usize])
    }

    /// The looks at a cache, oldest first.
    pub fn looks(&self, cache: &str) -> impl DoubleEndedIterator<Item = &CacheSample> + Clone {
        self.caches.get(cache).into_iter().flatten()
    }

    /// How a cache changed between its last two looks; `None` where that is not
    /// known, as for a counter that went back.
    pub fn rate(&self, cache: &str, changing: RateKind) -> Option<Rate> {
        let mut looks = self.looks(cache).rev();
        let (last, before) = (looks.next()?, looks.next()?);
        let seconds = last.at.checked_sub(before.at)?.as_secs_f64();
        let ((a, b), (c, d)) = (before.value(changing)?.bounds()?, last.value(changing)?.bounds()?);
        if seconds <= 0.0 || (changing == RateKind::SlowPaths && d < a) {
            return None;
        }
        // Exact for equal ends; else the middles. Differences are taken before
        // anything is rounded.
        let twice = i128::from(c) + i128::from(d) - i128::from(a) - i128::from(b);
        Some(Rate { a_second: twice as f64 / 2.0 / seconds, about: a != b || c != d })
    }
}

impl CacheSample {
    fn at(at: Duration, snapshot: &Snapshot, cache: &Cache) -> CacheSample {
        let get =
            |name| fields::field(name).and_then(|f: &Field| fields::value(f, snapshot, cache));
        CacheSample {
            at,
            live: get("live"),
            bytes: get("bytes"),
            objects: get("objects"),
            slow_paths: get("slow_paths"),
        }
    }

    fn value(&self, changing: RateKind) -> Option<&Value> {
        match changing {
            RateKind::Live => self.live.as_ref(),
            RateKind::Objects => self.objects.as_ref(),
            RateKind::Bytes => self.bytes.as_ref(),
            RateKind::SlowPaths => self.slow_paths.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard_observe::snapshot::{Source, SourceKind};

    fn look(history: &mut History, seconds: u64, live: Value, slow_paths: u64) {
        let mut snapshot = Snapshot::new(Source::of(SourceKind::Process));
        let mut cache = Cache::new("malloc-64");
        cache.set("live", live);
        cache.set("slow_paths", slow_paths);
        snapshot.caches.push(cache);
        history.add(&snapshot, Duration::from_secs(seconds));
    }

    #[test]
    fn a_rate_is_the_change_between_the_last_two_looks() {
        let mut history = History::default();
        look(&mut history, 0, 1000.into(), 50);
        assert_eq!(history.rate("malloc-64", RateKind::Live), None);
        look(&mut history, 2, 400.into(), 60);
        let rate = |a_second, about| Some(Rate { a_second, about });
        assert_eq!(history.rate("malloc-64", RateKind::Live), rate(-300.0, false));
        assert_eq!(history.rate("malloc-64", RateKind::SlowPaths), rate(5.0, false));
        assert_eq!(history.rate("malloc-64", RateKind::Bytes), None);
        assert_eq!(history.rate("malloc-96", RateKind::Live), None);
        look(&mut history, 3, Value::Range(410, 430), 60);
        assert_eq!(history.rate("malloc-64", RateKind::Live), rate(20.0, true));
    }

    #[test]
    fn a_counter_that_went_back_has_no_rate() {
        let mut history = History::default();
        look(&mut history, 0, 1.into(), 50);
        look(&mut history, 1, 1.into(), 3);
        assert_eq!(history.rate("malloc-64", RateKind::SlowPaths), None);
    }

    #[test]
    fn two_looks_at_one_time_have_no_rate() {
        let mut history = History::default();
        look(&mut history, 1, 1.into(), 1);
        look(&mut history, 1, 2.into(), 2);
        assert_eq!(history.rate("malloc-64", RateKind::Live), None);
    }

    #[test]
    fn what_is_kept_is_bounded_and_gone_caches_are_forgotten() {
        let mut history = History::default();
        for n in 0..300 {
            look(&mut history, n, n.into(), 0);
        }
        let lives: Vec<u64> =
            history.looks("malloc-64").filter_map(|look| look.live.as_ref()?.exact()).collect();
        assert_eq!(lives, (180..300).collect::<Vec<u64>>());
        history.add(&Snapshot::new(Source::of(SourceKind::Process)), Duration::from_secs(300));
        assert_eq!(history.looks("malloc-64").count(), 0);
    }
}
