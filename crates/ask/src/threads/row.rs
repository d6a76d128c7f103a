//! The data of the threads: tables of rows, with how near ours has to be.

use super::basis::{Basis, RowError};
use super::runs::Runs;
use std::fmt;

/// A thread of a mailing list.
pub struct Thread {
    /// As typed.
    pub name: &'static str,
    /// Subject, list and date.
    pub title: &'static str,
    /// Where its own numbers or words disagree.
    pub inconsistencies: &'static [&'static str],
    /// Its tables and arguments.
    pub tables: &'static [Table],
}

/// A table of a thread, or an argument with its numbers.
pub struct Table {
    /// As typed, behind the thread's name and a dot.
    pub name: &'static str,
    /// What it shows, and on what machines: theirs and ours.
    pub title: &'static str,
    /// In the thread's order.
    pub rows: &'static [Row],
}

/// One side of a row: a measurement of the mail's author, or an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Theirs {
    /// As it was measured, or computed from measurements.
    Number(f64),
    /// An argument without a number of its own.
    Claim(&'static str),
}

/// The words of a claim that no one made: ours stands alone.
pub const UNNAMED: &str = "no number";

/// How near ours has to be, and why no nearer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Near {
    /// The same number.
    Equal(&'static str),
    /// Within this part of theirs.
    Within(f64, &'static str),
    /// So much more or less, in the row's unit.
    Points(f64, &'static str),
    /// Up to so many times as much or as little.
    Times(f64, &'static str),
    /// At least this much: for arguments without a number.
    AtLeast(f64, &'static str),
    /// At most this much.
    AtMost(f64, &'static str),
}

impl Near {
    /// The reason for the tolerance.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Near::Equal(why)
            | Near::Within(_, why)
            | Near::Points(_, why)
            | Near::Times(_, why)
            | Near::AtLeast(_, why)
            | Near::AtMost(_, why) => why,
        }
    }

    /// True if ours is near enough.
    #[must_use]
    pub fn holds(self, theirs: Theirs, ours: f64) -> bool {
        match (self, theirs) {
            (Near::AtLeast(least, _), _) => ours >= least,
            (Near::AtMost(most, _), _) => ours <= most,
            (Near::Equal(_), Theirs::Number(theirs)) => (ours - theirs).abs() < 1e-9,
            (Near::Within(part, _), Theirs::Number(theirs)) => {
                (ours - theirs).abs() <= part * theirs.abs()
            }
            (Near::Points(points, _), Theirs::Number(theirs)) => (ours - theirs).abs() <= points,
            (Near::Times(times, _), Theirs::Number(theirs)) => {
                ours * theirs > 0.0 && (ours / theirs).max(theirs / ours) <= times
            }
            (_, Theirs::Claim(_)) => false,
        }
    }
}

impl fmt::Display for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Near::Equal(_) => write!(f, "equal"),
            Near::Within(part, _) => write!(f, "within {} %", part * 100.0),
            Near::Points(points, _) => write!(f, "within {points}"),
            Near::Times(times, _) => write!(f, "within {times} times"),
            Near::AtLeast(least, _) => write!(f, "at least {least}"),
            Near::AtMost(most, _) => write!(f, "at most {most}"),
        }
    }
}

/// Computes ours.
pub type Compute = fn(&Runs) -> Result<f64, RowError>;

/// One number.
#[derive(Clone, Copy)]
pub struct Row {
    /// Unique in its table.
    pub name: &'static str,
    /// Of the mail's author.
    pub theirs: Theirs,
    /// Of both numbers.
    pub unit: &'static str,
    /// What ours is computed from.
    pub basis: Basis,
    /// The function that computes the lab's number.
    pub ours: Compute,
    /// `None`: shown, and not judged.
    pub near: Option<Near>,
    /// How ours came about, and what of theirs cannot be had.
    pub note: &'static str,
}

impl Row {
    pub(crate) const fn new(
        name: &'static str,
        theirs: f64,
        unit: &'static str,
        basis: Basis,
        ours: Compute,
    ) -> Row {
        Row { name, theirs: Theirs::Number(theirs), unit, basis, ours, near: None, note: "" }
    }

    pub(crate) const fn claim(
        name: &'static str,
        theirs: &'static str,
        unit: &'static str,
        basis: Basis,
        ours: Compute,
    ) -> Row {
        Row { name, theirs: Theirs::Claim(theirs), unit, basis, ours, near: None, note: "" }
    }

    pub(crate) const fn near(mut self, near: Near) -> Row {
        self.near = Some(near);
        self
    }

    pub(crate) const fn note(mut self, note: &'static str) -> Row {
        self.note = note;
        self
    }
}
