//! The panes below the table, and what a look must tell for each.
//!
//! Neighbours: [`super::app`] opens them, [`super::draw`] draws them.

use slabyard_observe::source::ReadScope;

/// What is below the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    /// Nothing.
    Closed,
    /// The chosen cache.
    Cache,
    /// Who allocates from a kernel's caches, and how much.
    Sites,
}

/// What to look at.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// Of the caches.
    pub scope: ReadScope,
    /// The open pane: call sites are counted as long as they are shown.
    pub pane: Pane,
}
