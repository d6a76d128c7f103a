//! Counts a kernel's allocations as long as the pane of call sites is open.
//!
//! Neighbour: the crate `slabyard-owners` counts. Invariant: nothing is counted, and nothing is in
//! the kernel for it, while the pane is closed.

use super::pane::Pane;
use slabyard_observe::source::SourceName;
use slabyard_owners::{Activity, Rates};

/// The programs of a kernel, while its call sites are shown.
pub struct Counting {
    /// Why a source is not counted at all.
    refused: Option<String>,
    budget: f64,
    rates: Option<Result<Rates, String>>,
}

impl Counting {
    /// Of a source, by this share of one CPU.
    pub fn new(source: &SourceName, budget: f64) -> Counting {
        let refused = match source {
            SourceName::Kernel => None,
            _ => Some(format!("`slabyard profile {source}` samples who allocates in a process")),
        };
        Counting { refused, budget, rates: None }
    }

    /// What was counted since the last look at this pane.
    pub fn look(&mut self, pane: Pane) -> Option<Result<Activity, String>> {
        if pane != Pane::Sites {
            self.rates = None;
            return None;
        }
        if let Some(why) = &self.refused {
            return Some(Err(why.clone()));
        }
        let budget = self.budget;
        let rates = self.rates.get_or_insert_with(|| {
            let started = Rates::start(budget);
            started.map_err(|it| format!("{}: {}: it would tell {}", it.what, it.why, it.adds))
        });
        Some(match rates {
            Ok(rates) => rates.look(),
            Err(why) => Err(why.clone()),
        })
    }
}
