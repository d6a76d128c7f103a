//! The rules of a cache with CPU slabs: those of its kernel, from the table of `slabyard-kernels`,
//! those that follow from its object size, and bugs that tests plant.
//!
//! Sources: C. Lameter's design (2007) and its changes in the kernel's commit messages:
//! 49e2258586b4 (CPU partial lists), b47291ef02b0 (slabs counted, not objects), the series "slub:
//! Delay freezing of CPU partial slabs" (2023), the series "SLUB percpu sheaves" (2025).

use crate::engine::array_cache::Limits;
use slabyard_kernels::{Accounting, Freezing};

/// What a CPU looks into first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Front {
    /// As kernels had it to 6.17.
    CpuSlabs,
    /// Its sheaves, refilled by the way of its CPU slab (6.18, caches that ask).
    SheavesOverCpuSlabs,
    /// Its sheaves, refilled from the node's list (7.x).
    Sheaves,
    /// The node's list: it has nothing of its own (SLUB_TINY).
    Nothing,
    /// Its array: SLAB, to 6.7.
    ArrayCaches(Limits),
}

/// A bug or a wrong rule, which a checker must find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// No bug.
    #[default]
    None,
    /// Slabs taken off the node's list in one go are forgotten where CPU partial
    /// lists are off: the first version of delayed freezing (October 2023).
    LoseExtraSlabs,
    /// Drained slabs join the node's list at its head.
    DrainToHead,
    /// Only the slab to use is taken off the node's list.
    NoBatchMove,
}

/// What is fixed for a cache.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Objects in a slab.
    pub objects: u32,
    /// Slabs kept on a node's list although they are empty.
    pub min_partial: u32,
    /// Free objects that a CPU partial list may hold ([`Accounting::Objects`],
    /// [`Accounting::Exact`]).
    pub cpu_partial: u32,
    /// Slabs that it may hold ([`Accounting::Slabs`]).
    pub cpu_partial_slabs: u32,
    /// False: there are no CPU partial lists.
    pub cpu_partial_lists: bool,
    /// When slabs are frozen.
    pub freezing: Freezing,
    /// What is counted.
    pub accounting: Accounting,
    /// Where a CPU looks first.
    pub front: Front,
    /// Objects in a sheaf; 0: no sheaves, whatever the front.
    pub sheaf_capacity: u32,
    /// Part, in 1024ths, of the slow paths that look at other nodes' lists.
    pub remote_ratio: u32,
    /// A planted bug.
    pub planted: Planted,
}

impl Rules {
    /// Rules of a kind, for caches whose limits follow from their objects.
    #[must_use]
    pub const fn of_kind(freezing: Freezing, accounting: Accounting, lists: bool) -> Self {
        Rules {
            objects: 0,
            min_partial: 0,
            cpu_partial: 0,
            cpu_partial_slabs: 0,
            cpu_partial_lists: lists,
            freezing,
            accounting,
            front: Front::CpuSlabs,
            sheaf_capacity: 0,
            remote_ratio: 0,
            planted: Planted::None,
        }
    }

    /// The same by SLAB: nothing for CPUs but an array.
    #[must_use]
    pub const fn of_arrays(self, objects: u32, limits: Limits) -> Self {
        Rules {
            objects,
            front: Front::ArrayCaches(limits),
            min_partial: 0,
            cpu_partial: 0,
            cpu_partial_slabs: 0,
            cpu_partial_lists: false,
            ..self
        }
    }

    /// Every kind that an engine has: each freezing and accounting, with CPU partial lists and
    /// without, and those that are frozen late below sheaves as well.
    pub fn kinds() -> impl Iterator<Item = Self> {
        let of =
            |(freezing, front)| Accounting::ALL.map(|accounting| (freezing, front, accounting));
        let alone = Freezing::ALL.map(|freezing| (freezing, Front::CpuSlabs));
        let fronts = alone.into_iter().chain([(Freezing::Delayed, Front::SheavesOverCpuSlabs)]);
        fronts.flat_map(of).flat_map(|(freezing, front, accounting)| {
            [true, false].map(|lists| Rules { front, ..Self::of_kind(freezing, accounting, lists) })
        })
    }

    /// False from 7.0 on and in SLUB_TINY: objects come from nodes' lists alone, or from sheaves.
    #[must_use]
    pub fn has_cpu_slabs(&self) -> bool {
        matches!(self.front, Front::CpuSlabs | Front::SheavesOverCpuSlabs)
    }

    /// True if one more slab is to move from a node's list to a CPU's, which got this many
    /// already, with this many free objects.
    pub(super) fn wants_more(&self, moved: u32, available: u32) -> bool {
        match self.planted {
            Planted::NoBatchMove => return false,
            Planted::LoseExtraSlabs if !self.cpu_partial_lists => return true,
            _ => {}
        }
        self.cpu_partial_lists
            && match self.accounting {
                Accounting::Objects | Accounting::Exact => available <= self.cpu_partial / 2,
                // Half of the limit and one more, but none where the limit is 0.
                Accounting::Slabs => {
                    self.cpu_partial_slabs > 0 && moved <= self.cpu_partial_slabs / 2
                }
            }
    }

    /// True if a list of this many slabs, with this many objects as it counts them, has no room for
    /// a slab with `free` objects.
    pub(super) fn is_over(&self, slabs: u32, objects: u32, free: u32) -> bool {
        slabs > 0
            && match self.accounting {
                Accounting::Objects => objects > self.cpu_partial,
                Accounting::Slabs => slabs >= self.cpu_partial_slabs,
                Accounting::Exact => objects + free > self.cpu_partial,
            }
    }

    /// True if lists keep nothing: to 5.15 a limit of 0 does that; later one slab stays.
    pub(super) fn keeps_nothing(&self) -> bool {
        self.accounting == Accounting::Objects && self.cpu_partial == 0
    }
}
