//! The caches' sizes before and after a watch, which confirm what the programs or the events counted,
//! and are the report of caches where there are neither.

use crate::report::{CacheRate, Lacking, Losses, Means, Watch};
use slabyard_observe::Snapshot;
use std::cmp::Reverse;

/// The caches' sizes before and after.
pub(crate) struct Sizes {
    /// Or why they could not be read.
    pub before: Result<Snapshot, String>,
    /// Or why they could not be read again.
    pub after: Result<Snapshot, String>,
}

impl Sizes {
    /// Objects and bytes by which a cache's slabs in use grew. A merged cache has the growth of all
    /// its names.
    pub(crate) fn grew(&self, cache: &str) -> Option<(i64, i64)> {
        let of = |snapshot: &Snapshot| {
            let cache = snapshot.cache(cache)?;
            // Whom the kernel does not tell the objects in use it may tell those that slabs have.
            let objects = cache.exact("objects").or_else(|| cache.exact("total_objects"))?;
            Some((objects as i64, cache.exact("slab_size")? as i64))
        };
        let ((before, size), (after, _)) =
            (of(self.before.as_ref().ok()?)?, of(self.after.as_ref().ok()?)?);
        Some((after - before, (after - before) * size))
    }

    fn all(&self) -> Vec<CacheRate> {
        let caches = self.after.iter().flat_map(|snapshot| &snapshot.caches);
        let mut rates: Vec<CacheRate> = caches
            .filter_map(|cache| {
                let (objects, bytes) = self.grew(&cache.name)?;
                Some(CacheRate {
                    cache: cache.name.clone(),
                    allocations: None,
                    frees: None,
                    bytes: None,
                    grew_objects: Some(objects),
                    grew_bytes: Some(bytes),
                })
            })
            .filter(|rate| rate.grew_objects != Some(0))
            .collect();
        rates.sort_by_key(|rate| Reverse(rate.grew_bytes));
        rates
    }

    /// What is not known without the sizes after the watch.
    pub(crate) fn missing(&self) -> Option<Lacking> {
        let (what, why) = match (&self.before, &self.after) {
            (Err(why), _) => ("the caches' sizes", why),
            (_, Err(why)) => ("the caches' sizes after the watch", why),
            _ => return None,
        };
        Some(Lacking {
            what: what.into(),
            why: why.clone(),
            adds: "by how much each cache grew, which confirms its owners".into(),
        })
    }

    /// A watch of sizes alone, or without even them.
    pub(crate) fn watch(&self, took_ns: u64) -> Watch {
        Watch {
            took_ns,
            means: if self.before.is_ok() { Means::Sizes } else { Means::Totals },
            missing: self.missing().into_iter().collect(),
            cost: None,
            one_in: 1,
            lost: Losses::default(),
            caches: self.all(),
            owners: Vec::new(),
            sites: Vec::new(),
            directories: Vec::new(),
            file_systems: Vec::new(),
            growth: Vec::new(),
        }
    }
}
