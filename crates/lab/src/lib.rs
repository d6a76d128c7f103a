//! The lab replays allocation traces of real kernels through the slab allocators, on modelled
//! machines of any size and release, and compares the results with what the kernels really did.
//!
//! A [`trace`] and a [`snapshot`] make up a [`case`]. [`prepare`] finds from the trace which object
//! of which slab each event concerns. [`replay`] repeats the events on a machine with other
//! [`rules`], computing the [`geometry`] that a kernel would choose. [`check`] measures how close
//! the result is to what the kernel did. [`to_snapshot`] turns a replay's result into a snapshot,
//! which every view of `slabyard-observe` can show. [`lists`] reads the running kernel's slab
//! lists, slab by slab. [`record`] traces the running kernel, [`edit`] makes a trace from other
//! traces, and [`malloc`] turns a process's calls to malloc into a kernel's trace. [`population`]
//! builds a load from snapshots alone. [`slob`] replays a trace on SLOB, which has no slabs.
//! [`load`] makes a trace from a text that describes one. [`paths`] drives a CPU slab's slow paths
//! one by one. [`small`] models machines of a few MiB, with loads that start on an empty machine.
//! [`leaks`] finds the objects of a trace that stay, and whose they are.
//! [`accuracy`] holds the measured errors of predictions for other machines, [`calibrate`] measures
//! what operations cost on this one.
//!
//! Modules import downwards only: small > slob, geometry; cache_rules, to_snapshot > case > accuracy; case,
//! check > replay, population > prepare > trace, lists, snapshot > geometry > rules > event; edit,
//! import > load, malloc, record > prepare, trace; leaks > prepare, snapshot, trace; malloc > geometry; slob > trace;
//! population > accuracy. `packed` is below all; `paths` and `calibrate` import none of these.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod accuracy;
pub mod cache_rules;
pub mod calibrate;
pub mod case;
pub mod check;
pub mod edit;
pub mod event;
pub mod geometry;
pub mod import;
pub mod leaks;
pub mod lists;
pub mod load;
pub mod malloc;
mod packed;
pub mod paths;
mod plain;
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
