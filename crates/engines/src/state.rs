//! The process's yard, and the type that implements the trait `Library`.

use slabyard::engine::Any;
use slabyard::platform::linux::CountingLinux;
use slabyard::yard::Yard;

/// The process's yard.
pub(crate) static YARD: Yard<CountingLinux, Any> = Yard::new(CountingLinux::new());

/// The library.
pub(crate) struct AnyEngine;
