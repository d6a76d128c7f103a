//! Waste of a request, over ranges of requests, against the goals.
//!
//! Waste = what is committed for the request - what was requested. An object's
//! share of its slab includes the tail. The goals are relative to the requested
//! bytes; the committed bytes are never less, so the goals hold relative to
//! them as well.

use std::ops::RangeInclusive;

/// The largest request that is asked.
pub const LARGEST_ASKED: usize = 1 << 20;
/// Up to here the goal is in bytes.
pub const LARGEST_SMALL: usize = 128;
/// Bytes that a small request may waste.
pub const SMALL_GOAL: usize = 16;
/// What any other request may waste, in per cent.
pub const WORST_GOAL: f64 = 20.0;
/// What a doubling may waste on average, in per cent.
pub const MEAN_GOAL: f64 = 12.5;

/// What is committed for so many objects together: a slab, or a run for one.
#[derive(Clone, Copy, Debug)]
pub struct Committed {
    /// Bytes of the slab or the run.
    pub bytes: usize,
    /// Objects in it.
    pub objects: usize,
}

impl Committed {
    /// Waste of all objects together, for requests of `request` bytes; `None`
    /// if they do not fit.
    fn waste(self, request: usize) -> Option<usize> {
        self.bytes.checked_sub(request * self.objects)
    }

    /// Waste of one, in bytes.
    fn each(self, request: usize) -> f64 {
        self.bytes as f64 / self.objects as f64 - request as f64
    }
}

/// Waste over a range of requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waste {
    /// The most, in bytes.
    pub worst_bytes: f64,
    /// Mean, in bytes.
    pub mean_bytes: f64,
    /// The request with the largest part wasted, ...
    pub worst_at: usize,
    /// ... which is so many per cent of the requested bytes.
    pub worst_of_requested: f64,
    /// Mean of the parts of the requested bytes, in per cent.
    pub mean_of_requested: f64,
    /// Mean of the parts of the committed bytes, in per cent.
    pub mean_of_committed: f64,
}

impl Waste {
    /// Asks every request of a range. Requests of 0 bytes count in bytes only.
    pub fn over(requests: RangeInclusive<usize>, committed: impl Fn(usize) -> Committed) -> Self {
        let mut sum = Waste::default();
        let (mut n, mut parts) = (0.0, 0.0);
        for request in requests {
            let each = committed(request).each(request);
            n += 1.0;
            sum.mean_bytes += each;
            sum.worst_bytes = sum.worst_bytes.max(each);
            if request == 0 {
                continue;
            }
            parts += 1.0;
            let of_requested = 100.0 * each / request as f64;
            let of_committed = 100.0 * each / (request as f64 + each);
            sum.mean_of_requested += of_requested;
            sum.mean_of_committed += of_committed;
            if of_requested > sum.worst_of_requested {
                sum.worst_of_requested = of_requested;
                sum.worst_at = request;
            }
        }
        sum.mean_bytes /= n;
        sum.mean_of_requested /= parts;
        sum.mean_of_committed /= parts;
        sum
    }
}

/// 129 to 256, 257 to 512, and so on.
pub fn doublings() -> impl Iterator<Item = RangeInclusive<usize>> {
    let first = |shift: u32| (1 << shift) + 1;
    (LARGEST_SMALL.ilog2()..LARGEST_ASKED.ilog2()).map(move |s| first(s)..=2 << s)
}

/// Where a table breaks the goals, in words.
pub fn breaches(committed: impl Fn(usize) -> Committed) -> Vec<String> {
    let mut found = Vec::new();
    for request in 0..=LARGEST_ASKED {
        let c = committed(request);
        let Some(waste) = c.waste(request) else {
            found.push(format!("{request} bytes do not fit into {c:?}"));
            continue;
        };
        // In whole numbers: a limit is met or it is not.
        let most = match request {
            0..=LARGEST_SMALL => SMALL_GOAL * c.objects,
            _ => request * c.objects * WORST_GOAL as usize / 100,
        };
        if waste > most {
            let each = c.each(request);
            found.push(format!("{request} bytes waste {each:.2}: {c:?}"));
        }
    }
    for range in doublings() {
        let waste = Waste::over(range.clone(), &committed);
        let mean = waste.mean_of_requested.max(waste.mean_of_committed);
        if mean > MEAN_GOAL {
            let (from, to) = (range.start(), range.end());
            found.push(format!("{from} to {to} bytes waste {mean:.3} % on average"));
        }
    }
    found
}
