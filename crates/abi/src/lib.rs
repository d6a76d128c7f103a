//! Data that crosses a process boundary: the counters of a cache and of a yard, the text report
//! that carries them, and the page through which a process asks to be read at its end.
//! (`slabyard-kernels` encodes options.) Both sides and all libraries use [`ticks`] and
//! [`shared_library`].
//!
//! Floor 1 of the workspace: any crate may depend on it, and it depends only on `slabyard-kernels`.
//! The walk "I am a number on the screen" in `docs/design.md` starts here: a counter's name is
//! written once, in [`counters::FIELDS`] or [`counters::TOTALS`], and the writer, the reader, the
//! table's heading and the JSON key use it.
#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod counters;
pub mod debug;
pub mod ending;
pub mod failslab;
mod linked;
pub mod pressure;
pub mod profile;
pub mod recording;
pub mod region;
pub mod report;
pub mod stats;

/// The engines, whose numbers the region and the report carry.
pub use slabyard_kernels::engines;

/// The examples of the README run as those of the documentation do.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
