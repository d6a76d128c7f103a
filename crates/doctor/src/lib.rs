//! What is wrong with the memory of a process or a kernel, in words, and where the memory is, in
//! parts that add up to RSS or to the slab memory.
//!
//! Floor 7 of the workspace: this crate depends on `slabyard-observe`, which reads, and on
//! `slabyard-lab`, which finds what a recording leaves behind. [`Look::take`] reads a source once; [`examine`] judges one look, or several for growth; [`text`] prints the
//! [`Diagnosis`], which serialises to the JSON of `slabyard doctor --json`.
//!
//! The modules are layered: each refers only to modules of its own or a lower layer.
//!
//! ```text
//! 5  text      prints
//! 4  diagnosis
//! 3  rules     the table of rules, and what each finds
//! 2  rule      what a rule is
//! 1  verdict   where the memory is        mappings  what mappings are for
//! 0  look < recording   kernel_files   finding   owners
//! ```
//!
//! Invariants: nothing here prints or ends the process; what was not read is named, and not guessed.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_docs)]

pub mod diagnosis;
pub mod finding;
pub mod kernel_files;
pub mod look;
pub mod mappings;
pub mod owners;
pub mod recording;
pub mod rule;
pub mod rules;
pub mod text;
pub mod verdict;

pub use diagnosis::{Diagnosis, Outcome, examine};
pub use look::Look;
