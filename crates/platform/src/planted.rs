//! Bugs that tests plant, to show that the checks find them. The code that would contain the bug
//! asks its platform whether the bug is planted: the modelled machine (`slabyard-testkit`) answers
//! as the test has chosen. On every other platform the answer is a constant, so no library contains
//! code for these bugs.

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
