//! What a call's operations cost: the lab's table, as measured on this machine, or as typed.
//!
//! Neighbours: `slabyard_lab::replay::contend` has the table with its sources,
//! `slabyard_lab::calibrate` measures.

use crate::Error;
use slabyard_lab::calibrate::{Effort, Measured};
use slabyard_lab::replay::contend::{COSTS, Costs, costs};
use std::collections::BTreeMap;

/// Takes some milliseconds.
const QUICK: Effort = Effort { windows: 21, turns: 4000 };

/// The table's costs with those in place that are measured here; the others change in proportion to
/// the sum of what is measured on one CPU.
#[must_use]
pub fn measured() -> Costs {
    let here = Measured::here(QUICK);
    let whole = |ns: f64| (ns.round() as u32).max(1);
    let factor = (here.exchange + here.lock + here.link)
        / f64::from(COSTS.exchange + COSTS.lock + COSTS.link);
    let scaled = |ns: u32| whole(f64::from(ns) * factor);
    let moved = here.moved.map_or_else(|| scaled(COSTS.lock_moved), whole);
    Costs {
        fast: scaled(COSTS.fast),
        slow: scaled(COSTS.slow),
        pages: scaled(COSTS.pages),
        exchange: whole(here.exchange),
        lock: whole(here.lock),
        link: whole(here.link),
        exchange_moved: moved,
        lock_moved: moved,
    }
}

/// Costs with those in place that are typed as `NAME=NANOSECONDS`.
///
/// # Errors
/// [`Error::Usage`] with the names that there are.
pub fn typed(mut lengths: Costs, texts: &[String]) -> Result<Costs, Error> {
    for text in texts {
        let (name, ns) = text.split_once('=').unwrap_or((text, ""));
        let cost = costs().iter().find(|cost| cost.name == name);
        let ns = ns.parse().ok().filter(|ns| *ns <= 1_000_000);
        let (Some(cost), Some(ns)) = (cost, ns) else {
            let names: Vec<&str> = costs().iter().map(|cost| cost.name).collect();
            return Err(Error::Usage(format!(
                "--cost {text}: give NAME=NANOSECONDS, up to 1000000; names: {}",
                names.join(", ")
            )));
        };
        *(cost.of)(&mut lengths) = ns;
    }
    Ok(lengths)
}

/// Nanoseconds by operation, as JSON has them.
#[must_use]
pub fn named(mut lengths: Costs) -> BTreeMap<&'static str, u32> {
    costs().iter().map(|cost| (cost.name, *(cost.of)(&mut lengths))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_measured_and_typed() {
        let here = named(measured());
        assert!(here.values().all(|ns| *ns > 0), "{here:?}");
        let typed_in = typed(COSTS, &["pages=7".to_owned()]).expect("a cost");
        assert_eq!(named(typed_in)["pages"], 7);
        for wrong in ["pages", "pages=x", "page=1", "pages=9999999"] {
            assert!(typed(COSTS, &[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
