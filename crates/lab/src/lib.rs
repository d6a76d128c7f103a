//! The lab: allocation traces of real kernels, replayed through the slab
//! allocators on machines that need not exist, and held against what the kernels
//! really did.
//!
//! A [`trace`] and a [`snapshot`] make a [`case`]; [`prepare`] tells
//! from the trace what was done to which object of which slab; [`replay`] does it
//! again on a machine after other [`rules`], whose [`geometry`] a kernel would
//! choose; [`check`] says how near that comes to what the kernel did.
//! [`to_snapshot`] makes of a replay a source that can be looked at as any other.
//! [`lists`] reads what lies on the running kernel's lists, slab by slab.
//! [`record`] makes a trace of what the running kernel does, [`edit`] one of another, [`malloc`] one of a process's calls.
//! [`population`] makes a load from snapshots alone. [`slob`] replays SLOB, which has no slabs.
//! [`small`] has machines of a few MiB, with a load from nothing.
//! [`accuracy`] is how far off answers on other machines were.
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
