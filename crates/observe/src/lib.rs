//! One data model of slab memory, filled by several sources and shown by several views.
//!
//! Floor 5 of the workspace: this crate depends on `slabyard-abi` but not on the engine, so it can
//! read a kernel on a machine without our allocator. The walk "I am a number on the screen" passes
//! through this crate: a source samples a [`Snapshot`]; [`fields`] returns its numbers by name, raw
//! or [derived](mod@derive); and a view shows them.
//!
//! The modules are layered: each refers only to modules of its own or a lower layer, and no
//! references form a cycle.
//!
//! ```text
//! 5  view      tables, JSON, CSV, OpenMetrics
//! 4  source    what a SOURCE on the command line is: a kernel, a process, a core or a file
//! 3  kernel, process < pasted < file < timeline    process < corefile   each samples a Snapshot
//!    process < profile                                        who allocates
//! 2  fields    derived numbers and the table of all names       delta    identity    report
//! 1  hidden    what a kernel counts as active though it may be free       drains    symbols    smaps
//!    layout    of what the bytes from one object of a kernel's to the next consist
//! 0  value, incident < snapshot    traces    want    release    what a source reports
//! ```
//!
//! Invariants: a number that a source does not report is `None`, never 0; a number that it only
//! bounds is a range; every name on the screen is defined in [`fields`].
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![warn(missing_docs)]

pub mod corefile;
pub mod delta;
mod derive;
pub mod drains;
pub mod fields;
pub mod file;
pub mod hidden;
pub mod identity;
pub mod incident;
pub mod kernel;
pub mod layout;
mod pasted;
pub mod process;
pub mod profile;
mod release;
pub mod report;
pub mod smaps;
pub mod snapshot;
pub mod source;
mod symbols;
pub mod timeline;
pub mod traces;
pub mod value;
pub mod view;
pub mod want;

pub use snapshot::{Cache, Snapshot};
pub use value::{Reading, Value};
pub use want::ReadScope;
