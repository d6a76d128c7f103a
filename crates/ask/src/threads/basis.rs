//! What a row's number is computed from, and why there is none.

use std::fmt;

/// What ours is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// A kernel's own formula.
    Formula(&'static str),
    /// What a real kernel reported, by the name of its snapshots.
    Guest(&'static str),
    /// A guest's objects, laid out by other rules or on another machine.
    Foretold(&'static str),
    /// A replay of a recording or a load, by its name.
    Replay(&'static str),
    /// The same with calls that overlap in time.
    Contention(&'static str),
    /// A path of the model, driven alone.
    Path(&'static str),
    /// A load on a machine of some MiB.
    SmallMachine(&'static str),
    /// Sizes that CI measures and holds.
    Measured(&'static str),
    /// A program that runs on this machine's CPUs.
    RealRun(&'static str),
}

impl Basis {
    /// Its kind, and what it is of.
    #[must_use]
    pub fn parts(self) -> (&'static str, &'static str) {
        match self {
            Basis::Formula(of) => ("formula", of),
            Basis::Guest(of) => ("guest", of),
            Basis::Foretold(of) => ("foretold", of),
            Basis::Replay(of) => ("replay", of),
            Basis::Contention(of) => ("contention", of),
            Basis::Path(of) => ("path", of),
            Basis::SmallMachine(of) => ("small", of),
            Basis::Measured(of) => ("measured", of),
            Basis::RealRun(of) => ("real", of),
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, of) = self.parts();
        write!(f, "{kind} {of}")
    }
}

/// Why a row has no number of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// Its computation did not use what its basis names: a number without a source.
    #[error("lost its basis: its computation does not use {0}")]
    LostBasis(String),
    /// This machine or installation lacks something; the text says what would do.
    #[error("not here: {0}")]
    NotHere(String),
    /// A recording or a rule that does not work, which is a bug.
    #[error("{0}")]
    Broken(String),
}
