//! The caches that comparisons leave out: the same for every trace.

use std::collections::BTreeMap;

use super::input::{CacheFacts, Input, NO_CACHE};
use super::naming::Caches;
use super::prepared::Prepared;
use super::truth::changes;

/// What becomes of the others in a cache that the kernel merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The merged cache is left out: its slabs hold these objects too.
    Out,
    /// The merged cache stays, and with it these objects.
    Stays,
}

/// A cache whose slabs a trace cannot tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name.
    pub name: &'static str,
    /// If it is an alias only.
    pub merged: Merged,
    /// Why.
    pub reason: &'static str,
}

/// The list.
pub const LEFT_OUT: [LeftOut; 2] = [
    // 6.18 gave it sheaves, which made it a cache of its own, and frees its objects
    // through them. Where it is merged, in 6.12 for one, its frees are traced.
    LeftOut {
        name: "maple_node",
        merged: Merged::Stays,
        reason: "freed in bulk and by kfree_rcu(), which no event tells",
    },
    LeftOut {
        name: "eventpoll_epi",
        merged: Merged::Out,
        reason: "freed by kfree_rcu(), which no event tells",
    },
];

/// Per cache: why it is left out, if it is.
#[must_use]
pub fn reasons(
    caches: &[CacheFacts],
    aliases: &BTreeMap<String, String>,
) -> Vec<Option<&'static str>> {
    let mut reasons = vec![None; caches.len()];
    let none = BTreeMap::new();
    let own = Caches::new(caches, &none);
    let names = Caches::new(caches, aliases);
    for LeftOut { name, merged, reason } in LEFT_OUT {
        let cache = match merged {
            Merged::Out => names.named(name),
            Merged::Stays => own.named(name),
        };
        if cache != NO_CACHE {
            reasons[cache as usize] = Some(reason);
        }
    }
    reasons
}

/// The share of the machine's slabs, when they are most, that are of caches left
/// out. Slabs at the start are the snapshot's, where it tells them.
#[must_use]
pub fn share_at_peak(input: &Input, prepared: &Prepared) -> f64 {
    let mut seen = vec![0u32; prepared.caches.len()];
    for slab in prepared.slabs.iter().filter(|slab| slab.initial) {
        seen[slab.cache as usize] += 1;
    }
    let (mut all, mut out) = (0i64, 0i64);
    let is_out = |cache: usize| prepared.caches[cache].left_out.is_some();
    for (cache, (facts, seen)) in input.caches.iter().zip(&seen).enumerate() {
        let slabs = i64::from(facts.slabs.max(*seen));
        all += slabs;
        out += if is_out(cache) { slabs } else { 0 };
    }
    let (mut peak, mut out_at_peak) = (all, out);
    for change in changes(&prepared.slabs) {
        all += i64::from(change.by);
        out += if is_out(change.cache as usize) { i64::from(change.by) } else { 0 };
        if all > peak {
            (peak, out_at_peak) = (all, out);
        }
    }
    if peak == 0 { 0.0 } else { out_at_peak as f64 / peak as f64 }
}
