//! The rules of barns and refills: how kernels with sheaves in every cache differ from each other.
//!
//! Sources: commit messages of the kernel and its mailing list: the series "SLUB percpu sheaves"
//! (6.18), "support memoryless nodes with sheaves" (7.1), ba7425312607 (7.2, what a refill does not
//! need), "enable runtime sheaves tuning" (proposed in May 2026: limits of barns that can be set).

/// What a kernel does with full and empty sheaves, and with what a refill does not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSheaves {
    /// Most full sheaves in a node's barn.
    pub max_full: u32,
    /// Most empty ones.
    pub max_empty: u32,
    /// True: what a refill returns to its last slab is a free, and counts as one (to 7.1).
    pub surplus_is_freed: bool,
    /// True: nodes without memory have barns, too, and the sheaves of their CPUs take objects of any
    /// node (from 7.1). False: these CPUs bypass sheaves.
    pub memoryless_barns: bool,
    /// True: an allocation that may not wait for memory refills a sheaf, too (fb1091febd66). False, in
    /// 7.0-rc1 and -rc2 alone: it takes one object from the slabs.
    pub nowait_refills: bool,
}

impl KernelSheaves {
    /// From 6.18 on.
    pub const FIRST: KernelSheaves = KernelSheaves {
        max_full: 10,
        max_empty: 10,
        surplus_is_freed: true,
        memoryless_barns: false,
        nowait_refills: true,
    };
}
