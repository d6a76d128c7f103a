//! How full the slabs on partial lists are when a replay ends: those of all caches, by the share of
//! their objects that is in use.

use serde::Serialize;
use slabyard_observe::Snapshot;
use slabyard_observe::view::show::fullness::Fullness;

/// The slabs of one class.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct PartialSlabs {
    /// The share of their objects, in words.
    in_use: &'static str,
    slabs: u64,
    bytes: u64,
}

const CLASSES: [&str; 11] = [
    "none",
    "to 10 %",
    "10 to 20 %",
    "20 to 30 %",
    "30 to 40 %",
    "40 to 50 %",
    "50 to 60 %",
    "60 to 70 %",
    "70 to 80 %",
    "80 to 90 %",
    "90 to 100 %",
];

/// Each class, those without slabs too.
pub fn of(snapshot: &Snapshot, page_bytes: u64) -> Vec<PartialSlabs> {
    let mut classes = CLASSES.map(|in_use| PartialSlabs { in_use, slabs: 0, bytes: 0 });
    for cache in &snapshot.caches {
        let Some(fullness) = Fullness::of(cache) else { continue };
        let bytes = page_bytes << cache.exact("order").unwrap_or(0);
        let counts = std::iter::once(&fullness.empty).chain(&fullness.tenths);
        for (class, slabs) in classes.iter_mut().zip(counts) {
            class.slabs += slabs;
            class.bytes += slabs * bytes;
        }
    }
    classes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use slabyard_observe::Cache;
    use slabyard_observe::snapshot::{Source, SourceKind};

    #[test]
    fn slabs_are_counted_by_the_share_in_use_and_weighed_by_their_order() {
        let mut snapshot = Snapshot::new(Source::of(SourceKind::Lab));
        for (order, fullness) in [(0u64, vec![(0, 2), (1, 3), (16, 5)]), (2, vec![(2, 1), (15, 7)])]
        {
            let mut cache = Cache::new("x");
            cache.set("order", order);
            cache.set("objs_per_slab", 16u64);
            cache.fullness = Some(fullness);
            snapshot.caches.push(cache);
        }
        let found = of(&snapshot, 4096);
        let counts: Vec<u64> = found.iter().map(|class| class.slabs).collect();
        assert_eq!(counts, [2, 3, 1, 0, 0, 0, 0, 0, 0, 0, 12]);
        assert_eq!((found[2].in_use, found[2].bytes), ("10 to 20 %", 4 << 12));
        assert_eq!(found[10].bytes, (5 << 12) + (7 << 14));
    }
}
