//! What people and programs see of a [`crate::Snapshot`]: each view walks
//! [`crate::fields::FIELDS`] and [`crate::fields::TOTALS`], so that a name is the same
//! in a heading, as a JSON key and as a series.
//!
//! [`list`] is one line a cache, [`orders`] the slabs by order, [`show`] one cache, [`diff`] two
//! looks; [`json`], [`csv`] and [`openmetrics`] are for programs. [`pick`] chooses and sorts
//! caches; [`cell`] and [`grid`] format numbers.
//! Invariants: `-` (JSON `null`, CSV nothing) is unknown and never stands for 0; a range shows
//! both ends; text of a source cannot steer a terminal.

pub mod cell;
pub mod csv;
pub mod diff;
pub mod grid;
pub mod json;
pub mod list;
pub mod memory;
mod missing;
pub mod openmetrics;
pub mod orders;
pub mod pick;
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
