//! What the programs counted since the reader looked last, while they go on.
//!
//! Invariant: the table of origins does not stay full. When it nearly is, those of which nothing was
//! counted since the last look are forgotten; later frees of their objects count for the cache alone.

use super::counted::Raw;
use super::records::{Counts, Origin};
use super::session::{Session, words};
use aya::maps::HashMap as Map;
use std::collections::HashMap;
use std::error::Error;

/// Origins from which on idle ones are forgotten; there is room for 32768.
const MANY: usize = 16_384;

/// Allocations, bytes and frees.
type Totals = [u64; 3];

/// What was counted up to the last look.
#[derive(Default)]
pub(crate) struct Counted {
    origins: HashMap<Origin, Totals>,
    /// By address, or what is known of a kmalloc.
    caches: HashMap<u64, Totals>,
}

fn since(totals: Totals, before: Option<&Totals>) -> Totals {
    let before = before.copied().unwrap_or_default();
    std::array::from_fn(|nth| totals[nth].saturating_sub(before[nth]))
}

impl Session {
    /// Reads what was counted since `last`, which becomes what was counted until now.
    pub(crate) fn since(&mut self, last: &mut Counted) -> Result<Raw, String> {
        self.read_since(last).map_err(|error| words(error.as_ref()))
    }

    fn read_since(&mut self, last: &mut Counted) -> Result<Raw, Box<dyn Error>> {
        let mut raw = Raw { one_in: 1 << self.bits, ..Raw::default() };
        let origins = self.tables(&mut raw)?;
        self.add_spent(&mut raw);
        raw.unmeasured.clone_from(&self.unmeasured);
        let (mut now, mut idle) = (Counted::default(), Vec::new());
        for (origin, nth) in origins {
            let it = &mut raw.origins[nth];
            let totals = [it.allocations, it.bytes, it.frees];
            let more = since(totals, last.origins.get(&origin));
            [it.allocations, it.bytes, it.frees] = more;
            match more {
                [0, _, 0] => idle.push(origin),
                _ => drop(now.origins.insert(origin, totals)),
            }
        }
        if raw.origins.len() > MANY {
            let table = self.bpf.map_mut("origins").ok_or("a map is missing")?;
            let mut table = Map::<_, Origin, Counts>::try_from(table)?;
            for origin in idle {
                let _ = table.remove(&origin);
            }
        } else {
            let before = &last.origins;
            now.origins.extend(
                idle.into_iter().filter_map(|origin| Some((origin, *before.get(&origin)?))),
            );
        }
        for cache in &mut raw.caches {
            let totals = [cache.allocations, 0, cache.frees];
            [cache.allocations, _, cache.frees] = since(totals, last.caches.get(&cache.number));
            now.caches.insert(cache.number, totals);
        }
        *last = now;
        Ok(raw)
    }
}
