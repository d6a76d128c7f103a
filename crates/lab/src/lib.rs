//! The lab: replays allocation traces of real kernels through the slab allocators on machines that
//! need not exist, and compares the result with what the kernels really did.
//!
//! A [`trace`] and a [`snapshot`] make a [`case`]; [`prepare`] finds from the trace which object
//! of which slab each event is about; [`replay`] repeats the events on a machine by other
//! [`rules`], whose [`geometry`] a kernel would choose; [`check`] says how near that comes to what
//! the kernel did. [`to_snapshot`] makes a snapshot of a replay, which views show as any other.
//! [`lists`] reads what lies on the running kernel's lists, slab by slab. [`record`] makes a trace
//! of what the running kernel does, [`edit`] one of another, [`malloc`] one of a process's calls.
//! [`population`] makes a load from snapshots alone. [`slob`] replays SLOB, which has no slabs.
//! [`small`] has machines of a few MiB, and loads that begin with an empty machine. [`accuracy`]
//! has the errors of predictions for other machines.
//!
//! Modules import downwards only: small > slob, geometry; to_snapshot > case > accuracy; case, check > replay, population > prepare >
//! trace, lists, snapshot > geometry > rules > event; edit, import > malloc, record > prepare, trace;
//! malloc > geometry; slob > trace.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod accuracy;
pub mod case;
pub mod check;
pub mod edit;
pub mod event;
pub mod geometry;
pub mod import;
pub mod lists;
pub mod malloc;
pub mod population;
pub mod prepare;
pub mod record;
pub mod replay;
pub mod rules;
pub mod slab;
pub mod slob;
pub mod small;
pub mod snapshot;
pub mod to_snapshot;
pub mod trace;

pub use slabyard_model::counters;
