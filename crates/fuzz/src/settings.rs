//! What a user types, and what a program's environment has: settings, lists of nodes, questions.
//!
//! Neighbours: none. Invariant: what a rule or a setting says reads as the same rule again.

use slabyard_abi::{failslab, pressure};
use slabyard_ask::axis::Axis;
use slabyard_ask::sweep::shard::Shard;
use slabyard_lab::rules::NodeSet;
use slabyard_observe::smaps;
use slabyard_observe::view::pick::Pattern;

/// Each reader of such a text.
pub fn any(bytes: &[u8]) {
    let _ = failslab::parse(bytes);
    let _ = pressure::parse(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = Axis::parse(text);
    let _ = Shard::parse(text);
    let _ = NodeSet::parse(text);
    let _ = smaps::parse(text);
    if let Ok(pattern) = text.parse::<Pattern>() {
        let _ = pattern.matches("kmalloc-64");
    }
}
