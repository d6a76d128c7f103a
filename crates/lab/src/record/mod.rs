//! Records the kernel's `kmem` events, or a process's calls to malloc, into a trace file as they
//! happen.
//!
//! ```text
//! CPU's ring buffer -> reader (a thread a CPU) -> merger (one thread) -> Writer
//!      tracefs           ring, layout, kmem          merge, sieve
//! ```
//!
//! [`tracefs`] finds the kernel's tracing directory and creates our own instance in it. `ring`
//! decodes the pages of the instance's buffers, `layout` supplies the offsets of an event's fields,
//! and `kmem` decodes a record into an [`Event`](crate::event::Event); `probes` adds events of calls
//! that have no tracepoint; `merge` puts the events of all CPUs in order of time. `own_runs` has the
//! kernel leave out the recorder's own events; `sieve` drops those that come all the same, and those
//! that concern no slab. For a process, `process` empties its [`Rings`], `sites` names call sites,
//! and `spool` stores the calls until the process has ended. [`shrinks`] notes when other processes
//! shrink the kernel's caches. [`Recorder`] runs all these parts. Invariants: memory is bounded,
//! because every queue is bounded; events that the kernel could not keep are counted as lost at
//! their time; dropping a [`Recorder`] removes its tracefs instance.

mod clock;
mod error;
mod kmem;
mod layout;
mod merge;
mod merger;
mod own_runs;
mod probes;
mod process;
mod progress;
mod reader;
mod recorder;
mod ring;
mod rings;
pub mod shrinks;
mod sieve;
mod sites;
mod spool;
pub use slabyard_observe::kernel::tracefs;

pub use error::Error;
pub(crate) use kmem::{Decoder, Layouts};
pub(crate) use layout::Page;
pub use process::{ProcessProgress, ProcessRecorded};
pub use progress::Progress;
pub use recorder::{Options, Recorded, Recorder, Running, favour};
pub(crate) use ring::walk;
pub use rings::Rings;
pub use sieve::{Sieve, Wanted};
