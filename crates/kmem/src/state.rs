//! The process's yard, and the type that implements the trait `Library`.
//!
//! Neighbour: [`crate::object_caches`] lists what this library does and malloc's do not.

use slabyard::engine::Any;
use slabyard::platform::linux::Linux;
use slabyard::yard::Yard;
use slabyard_process::start;

/// The process's yard: of its caches each may have an engine of its own.
pub(crate) static YARD: Yard<Linux, Any> = Yard::new(Linux::new());

/// The library.
pub(crate) struct ObjectCaches;

/// Makes the yard ready if it is not; false if there is no memory for it.
#[inline]
pub(crate) fn ensure() -> bool {
    start::ensure::<ObjectCaches>()
}
