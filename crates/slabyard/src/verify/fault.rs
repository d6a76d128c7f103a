//! The faults that the whole-yard checker reports.

use crate::pages::Cause;
use core::fmt;

/// An equation that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The equation that does not hold.
    pub what: &'static str,
    /// The address, granule or class that it is about.
    pub at: usize,
    /// The number or address that contradicts.
    pub found: u64,
    /// What should have been found.
    pub expected: u64,
}

impl Fault {
    pub(super) const PARKED_NONE: &str = "parked object is none";
    pub(super) const TWICE: &str = "object free or parked twice";

    /// The misuse by the program that causes such a fault, if there is one.
    #[must_use]
    pub fn misuse(&self) -> Option<Cause> {
        match self.what {
            Self::PARKED_NONE => Some(Cause::Interior),
            Self::TWICE => Some(Cause::DoubleFree),
            _ => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at {:#x}: found {}, expected {}",
            self.what, self.at, self.found, self.expected
        )
    }
}

/// # Errors
/// If the two differ.
pub(super) fn expect(
    what: &'static str,
    at: usize,
    found: u64,
    expected: u64,
) -> Result<(), Fault> {
    if found == expected { Ok(()) } else { Err(Fault { what, at, found, expected }) }
}
