//! The outcomes of the loads, one allocator at a time: [`super::table`], [`super::report`] and
//! [`super::events`] print them.

use slabyard_lab::small::{Contender, Outcome};

/// What one allocator made of each load.
pub(super) struct ServedLoads {
    /// The allocator, with its settings.
    pub(super) contender: Contender,
    /// One for each load, in their order.
    pub(super) outcomes: Vec<Outcome>,
}
