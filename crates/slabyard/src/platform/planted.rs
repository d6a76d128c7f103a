//! Bugs that tests plant, to see that the checks find them. The code that would have the bug asks
//! its platform: the modelled machine (`slabyard-testkit`) answers what a test planted there.
//! Every other platform has none, as a constant, so that no library has code for them.
//!
//! Neighbours: [`crate::reclaim`] and [`crate::child`] ask.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Slow paths make whole reclaim passes, against the bound on a call.
    WholePasses,
    /// Caches are destroyed and drained without a look at this row.
    SkippedRow(usize),
    /// The child of a fork leaves a part of the repair out.
    Unrepaired(Repair),
}

/// A part of what the child of a fork repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// The whole repair.
    All,
    /// Caches: their locks and lists.
    Caches,
    /// Stacks that the parent had stopped.
    Stopped,
    /// Pages and slabs.
    Slabs,
}
