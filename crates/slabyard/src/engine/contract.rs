//! [`Engine`], the union of the traits that each engine implements ([`super::kind`],
//! [`super::slow_paths`], [`super::inspect`], [`super::orphans`]). Through it a yard reaches two
//! engines by their types: debugging, and the array caches that the clock of 2.4 reaps.
//!
//! Invariant: of all engines, only [`super::any`] names this module.

use super::array_cache::ArrayCaches;
use super::cpu_slabs::OnCpus;
use super::inspect::Inspect;
use super::node_set::NodeSet;
use super::orphans::Repair;
use super::sheaves::NodeSheaves;
use super::slow_paths::SlowPaths;
use super::{Debug, Sheaves, Slob, Tiny};
use slabyard_abi::debug::DebugFlags;

/// What serves the caches of a yard.
pub trait Engine: SlowPaths + Inspect + Repair {
    /// True if engines of this type may be reaped by the clock of 2.4.
    const REAPS: bool = false;

    /// Before a cache begins: it has this debugging. False if engines of this type have none.
    fn choose_debug(&self, _flags: DebugFlags) -> bool {
        false
    }

    /// Debugging, if the cache has it. Asked where engines may serve by size.
    #[inline]
    fn debug(&self) -> Option<&Debug> {
        None
    }

    /// The array caches, if that is the engine.
    #[inline]
    fn arrays(&self) -> Option<&ArrayCaches> {
        None
    }
}

impl<N: NodeSet<State = NodeSheaves>> Engine for Sheaves<N> {}
impl Engine for OnCpus {}
impl Engine for Tiny {}
impl Engine for Slob {}

impl Engine for ArrayCaches {
    const REAPS: bool = true;

    #[inline]
    fn arrays(&self) -> Option<&ArrayCaches> {
        Some(self)
    }
}

impl Engine for Debug {
    #[inline]
    fn debug(&self) -> Option<&Debug> {
        Some(self)
    }
}
