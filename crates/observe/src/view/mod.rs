//! The output formats of a [`crate::Snapshot`]: each view iterates over [`crate::fields::FIELDS`]
//! and [`crate::fields::TOTALS`], so a number has the same name in a heading, as a JSON key and as
//! a series.
//!
//! [`list`] prints one line per cache, [`orders`] the slabs by order, [`show`] one cache, [`diff`]
//! the differences of two snapshots; [`json`], [`csv`] and [`openmetrics`] are for programs.
//! [`profile`] prints who allocates. [`pick`] chooses and sorts caches; [`cell`] and [`grid`] format numbers. Invariants: `-` (JSON
//! `null`, CSV nothing) means unknown and never 0; a range shows both ends; a source's text cannot
//! send control sequences to a terminal.

pub mod cell;
pub mod csv;
pub mod diff;
pub mod grid;
mod incidents;
pub mod json;
pub mod list;
pub mod memory;
mod missing;
pub mod openmetrics;
pub mod orders;
pub mod pick;
pub mod profile;
pub mod show;

/// How numbers look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// `1.5 MiB`, `12.3%`.
    Human,
    /// Bytes and shares of 1, for programs.
    Plain,
}

/// Whether headings stand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// With escape sequences.
    Yes,
    /// Plain text.
    No,
}

/// The look of a view; its caller knows whether the output is a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Numbers.
    pub units: Units,
    /// Headings.
    pub colour: Colour,
    /// Characters in a line, where that is a limit.
    pub width: Option<usize>,
}

impl Style {
    /// For programs.
    pub const PLAIN: Style = Style { units: Units::Plain, colour: Colour::No, width: None };
}
