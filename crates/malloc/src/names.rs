//! Names of malloc's caches, in messages and reports.
//!
//! Neighbours: [`crate::misuse`], [`crate::report`], [`crate::info`] and the debugging of the library
//! of all engines name caches.

#[cfg(any_engine)]
use crate::state::YARD;
#[cfg(any_engine)]
use slabyard::cache::classes;
#[cfg(any_engine)]
use slabyard_abi::engines::EngineName;

/// The name of a class's cache: with an engine that serves by size, one cache serves all classes.
#[cfg(any_engine)]
pub(crate) struct Name(pub usize);

#[cfg(any_engine)]
impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match YARD.engine() {
            EngineName::Slob if self.0 == 0 => f.write_str("slob"),
            _ => write!(f, "{}", classes::Name(self.0)),
        }
    }
}

#[cfg(not(any_engine))]
pub(crate) use slabyard::cache::classes::Name;
