//! The kernel's own slab counts over time, derived from the pages that it allocated and freed for
//! slabs.
//!
//! Only changes since the start of the trace are counted: a snapshot is taken some time before the
//! first event, so its number of slabs is not the number at the start.

use std::ops::RangeInclusive;

use super::frames::Slab;
use super::input::CacheNumber;
use super::prepared::Prepared;

/// One slab more or less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Since the trace began.
    pub time_ns: u64,
    /// By its index in the trace's caches.
    pub cache: CacheNumber,
    /// 1 or -1.
    pub by: i8,
}

/// Every opening and closing of a slab, in order of time.
#[must_use]
pub fn changes(slabs: &[Slab]) -> Vec<Change> {
    let opened = slabs.iter().filter(|slab| !slab.initial).map(|slab| Change {
        time_ns: slab.opened_at,
        cache: slab.cache,
        by: 1,
    });
    let closed = slabs
        .iter()
        .filter_map(|slab| Some(Change { time_ns: slab.closed_at?, cache: slab.cache, by: -1 }));
    let mut changes: Vec<Change> = opened.chain(closed).collect();
    // Openings were put first, so a slab of no time is opened before it is closed.
    changes.sort_by_key(|change| change.time_ns);
    changes
}

/// A number of slabs over time, as change since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// Slabs whose pages were allocated.
    pub allocated: u32,
    /// Slabs whose pages were freed.
    pub freed: u32,
    /// Highest, at any time.
    pub peak: i32,
    /// Lowest, at any time.
    pub lowest: i32,
    /// When the last event was over.
    pub end: i32,
    /// At each point of the grid.
    pub points: Vec<i32>,
}

impl Curve {
    /// Highest less lowest.
    #[must_use]
    pub fn range(&self) -> u32 {
        self.peak.abs_diff(self.lowest)
    }

    fn change(&mut self, by: i8) {
        self.end += i32::from(by);
        if by > 0 {
            self.allocated += 1;
        } else {
            self.freed += 1;
        }
        self.peak = self.peak.max(self.end);
        self.lowest = self.lowest.min(self.end);
    }
}

/// The kernel's slabs over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truth {
    /// Per cache, also those left out.
    pub caches: Vec<Curve>,
    /// All caches together but those left out.
    pub total: Curve,
}

impl Truth {
    /// Counts the kernel's, with `points` samples over the trace.
    #[must_use]
    pub fn of(prepared: &Prepared, points: usize) -> Truth {
        Truth::count(&changes(&prepared.slabs), prepared, points)
    }

    /// Counts other changes, in order of time, of the same caches over the same span.
    #[must_use]
    pub fn count(changes: &[Change], prepared: &Prepared, points: usize) -> Truth {
        let mut caches = vec![Curve::default(); prepared.caches.len()];
        let mut total = Curve::default();
        let mut next = 0;
        for point in grid(&prepared.span, points) {
            while next < changes.len() && changes[next].time_ns <= point {
                let Change { cache, by, .. } = changes[next];
                caches[cache as usize].change(by);
                if prepared.caches[cache as usize].left_out.is_none() {
                    total.change(by);
                }
                next += 1;
            }
            for curve in caches.iter_mut().chain([&mut total]) {
                curve.points.push(curve.end);
            }
        }
        Truth { caches, total }
    }
}

/// Times of `points` samples: equal steps, the last at the end of the trace.
pub fn grid(span: &RangeInclusive<u64>, points: usize) -> impl Iterator<Item = u64> {
    let (start, length) = (*span.start(), span.end() - span.start());
    let points = points.max(1) as u64;
    (1..=points)
        .map(move |nth| start + (u128::from(length) * u128::from(nth) / u128::from(points)) as u64)
}
