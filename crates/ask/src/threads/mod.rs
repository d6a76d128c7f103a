//! What five threads of the kernel's mailing lists measured and argued about slab allocators, and
//! what developers argued about sheaves in 2026: each number by name, with ours beside it.
//!
//! A [`Thread`] has [`Table`]s, a table has [`Row`]s: data, one file a thread. A row says what the
//! thread has (`theirs`), how ours is computed, and on which [`Basis`]. [`runs`] does what rows ask
//! for (geometry by formula, guests' snapshots, replays, small machines), each once, and notes what
//! a row used. `recordings` holds the data, which is part of the program: an installed command
//! needs no source tree. [`wanted`] finds tables by their names, and [`json`] has their answers.
//!
//! Modules import downwards only: json, wanted > the threads > row > runs > replayed, once, measured >
//! recordings, basis.
//!
//! Invariants: no row says what ours is. A row whose computation did not use what its basis names
//! is an error ([`RowError::LostBasis`]), so a number that somebody writes down instead of computing
//! it is found. A row that is [`Near`] says why its tolerance is what it is.

mod basis;
mod freezing;
pub mod json;
mod large_pages;
mod lists;
mod measured;
mod once;
mod recordings;
mod replayed;
mod row;
pub mod runs;
mod sheaves;
mod slab_reaping;
mod slob;
pub mod wanted;

pub use basis::{Basis, RowError};
pub use row::{Near, Row, Table, Theirs, Thread, UNNAMED};
use runs::Runs;

/// The five threads, and the discussions of 2026 as a sixth.
pub static THREADS: &[Thread] = &[
    large_pages::THREAD,
    slab_reaping::THREAD,
    freezing::THREAD,
    slob::THREAD,
    lists::THREAD,
    sheaves::THREAD,
];

/// A row with its answer.
pub struct Answer {
    /// Where it stands.
    pub thread: &'static Thread,
    /// Of the thread that the row is in.
    pub table: &'static Table,
    /// What was computed.
    pub row: &'static Row,
    /// Ours, if it could be computed.
    pub ours: Result<f64, RowError>,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl Answer {
    /// Ours relative to theirs; `None` where theirs is no number other than 0.
    #[must_use]
    pub fn difference(&self) -> Option<f64> {
        match (self.row.theirs, &self.ours) {
            (Theirs::Number(theirs), Ok(ours)) if theirs != 0.0 => Some(ours / theirs - 1.0),
            _ => None,
        }
    }

    /// Is it near, if it has to be? `None` for rows that are not judged or not to be had here.
    #[must_use]
    pub fn is_near(&self) -> Option<bool> {
        let near = self.row.near?;
        self.ours.as_ref().ok().map(|ours| near.holds(self.row.theirs, *ours))
    }

    /// A row that fails the command: not near, or without its basis.
    #[must_use]
    pub fn fails(&self) -> bool {
        let broken = matches!(self.ours, Err(RowError::LostBasis(_) | RowError::Broken(_)));
        broken || self.is_near() == Some(false)
    }
}

/// All tables, in the order of the threads.
pub fn tables() -> impl Iterator<Item = (&'static Thread, &'static Table)> {
    THREADS.iter().flat_map(|thread| thread.tables.iter().map(move |table| (thread, table)))
}

/// The tables that a name means: all of a thread, or one (`thread.table`). None of an unknown name.
#[must_use]
pub fn find(name: &str) -> Vec<(&'static Thread, &'static Table)> {
    let is_meant = |(thread, table): &(&Thread, &Table)| {
        thread.name == name || name.split_once('.') == Some((thread.name, table.name))
    };
    tables().filter(is_meant).collect()
}

/// Computes a row, and sees to it that it used its basis.
pub fn answer(
    runs: &Runs,
    thread: &'static Thread,
    table: &'static Table,
    row: &'static Row,
) -> Answer {
    let begun = std::time::Instant::now();
    runs.forget_used();
    let ours = (row.ours)(runs).and_then(|ours| match runs.has_used(row.basis) {
        true => Ok(ours),
        false => Err(RowError::LostBasis(row.basis.to_string())),
    });
    Answer { thread, table, row, ours, seconds: begun.elapsed().as_secs_f64() }
}

#[cfg(test)]
mod tests;
