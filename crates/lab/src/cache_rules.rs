//! What settings decide for one cache of a case, so that caches of one replay may follow those of
//! several settings.
//!
//! Neighbours: [`Case::rule`] finds the rules of all caches by one setting, [`Case::follow`] puts
//! others in their place. Invariant: of two sets of rules that [act alike](CacheRules::acts_as) a
//! replay gives the same numbers.

use crate::case::Case;
use slabyard_kernels::KernelSheaves;
use slabyard_model::cache::{Accounting, Front, Rules};

/// All that settings decide for a cache.
#[derive(Clone, Copy)]
pub struct CacheRules {
    rules: Rules,
    order: u8,
    least: (u8, u32),
    sheaves: KernelSheaves,
    /// Its slabs for each that the snapshot counts.
    laid_out: Option<f64>,
}

impl CacheRules {
    /// True if a replay cannot tell the two apart.
    #[must_use]
    pub fn acts_as(&self, other: &CacheRules) -> bool {
        self.acting() == other.acting()
    }

    /// What a replay looks at; without `..`, so that a new rule does not compile until it stands here.
    fn acting(&self) -> impl PartialEq + use<> {
        let Rules {
            objects,
            min_partial,
            cpu_partial,
            cpu_partial_slabs,
            cpu_partial_lists,
            freezing,
            accounting,
            front,
            sheaf_capacity,
            remote_ratio,
            planted,
        } = self.rules;
        let has_list = cpu_partial_lists && front != Front::Sheaves;
        let list = has_list.then_some(match accounting {
            Accounting::Slabs => cpu_partial_slabs,
            Accounting::Objects | Accounting::Exact => cpu_partial,
        });
        let sheaves = (sheaf_capacity > 0).then_some((sheaf_capacity, self.sheaves));
        let slabs = (objects, self.order, self.least, self.laid_out);
        let policy = (min_partial, freezing, accounting, front, remote_ratio, planted);
        (slabs, list, sheaves, policy)
    }
}

impl Case {
    /// The rules that each cache follows.
    pub fn cache_rules(&self) -> impl Iterator<Item = CacheRules> + '_ {
        let laid_out = self.laid_out.as_deref().unwrap_or_default();
        (0..self.ids.len()).map(|nth| CacheRules {
            rules: self.rules[nth],
            order: self.orders[nth],
            least: self.least[nth],
            sheaves: self.sheaves[nth],
            laid_out: laid_out.get(nth).copied(),
        })
    }

    /// Puts rules in place, of each cache its own; they are of the machine that the case has.
    pub fn follow(&mut self, rules: &[CacheRules]) {
        for (nth, of) in rules.iter().enumerate() {
            self.rules[nth] = of.rules;
            self.orders[nth] = of.order;
            self.least[nth] = of.least;
            self.sheaves[nth] = of.sheaves;
            if let (Some(of), Ok(laid_out)) = (of.laid_out, &mut self.laid_out) {
                laid_out[nth] = of;
            }
        }
    }
}
