//! The columns of a CSV row, and what can be wrong with a row.
//!
//! [`super::csv`] reads the rows.

use std::io;
use thiserror::Error;

/// The first line.
pub const HEADING: &str = "t_us,cpu,pid,ev,cache_or_site,ptr,req,alloc,gfp,node,acct";
pub(super) const COLUMNS: usize = 11;
/// Longest line: a name is at most a few hundred bytes.
pub(super) const LONGEST: usize = 4096;

/// Why a CSV cannot be read.
#[derive(Debug, Error)]
pub enum Error {
    /// The system, or the compressed stream.
    #[error("line {line}: cannot read on: {error}")]
    Read {
        /// The line that was being read.
        line: u64,
        /// What is wrong.
        error: io::Error,
    },
    /// The first line is not the heading.
    #[error("line 1: not a CSV of events: the first line must be `{HEADING}`")]
    NotCsv,
    /// A line behind the heading breaks a rule.
    #[error("line {line}: {what}")]
    Row {
        /// Its line, from 1.
        line: u64,
        /// What is wrong with it.
        what: RowError,
    },
}

/// What is wrong with a row.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RowError {
    /// Too few or too many columns.
    #[error("{0} columns; a row has {COLUMNS}")]
    Columns(usize),
    /// A value that the column cannot have.
    #[error("column `{column}` is `{found}`; it must be {wanted}")]
    Value {
        /// Its name.
        column: &'static str,
        /// Its text, as it is in the line.
        found: String,
        /// What should be.
        wanted: &'static str,
    },
    /// A time that no other row is near.
    #[error("its time is more than a year from that of the row before: one of them is damaged")]
    Astray,
    /// No line is so long.
    #[error("more than {LONGEST} bytes in a line")]
    Long,
}
