//! Models of the protocols between threads: loom runs the code itself in every interleaving, with
//! every value that a load may return under the orderings that stand in the source.
//!
//! Built with `--cfg loom`, `slabyard_platform::sync` hands each access of an atomic to this crate.
//! A model [watches](watch) the words of its protocol; all other words are plain memory, which
//! no other thread changes between two accesses of watched words. So a model of one protocol of a
//! whole yard has few interleavings. [`Data`] stands for what the protocol guards: two accesses of
//! it that nothing orders fail the model.
//!
//! `SLABYARD_WEAKEN` weakens one access of the code (`FILE:LINE:COLUMN set|seen acquire|release`),
//! by which `ci/orderings-by-hand` shows that each ordering is needed. An access that is SeqCst has
//! fences around it here, because loom takes its order for acquire and release alone.
//!
//! Neighbours: `tests` has the models, and compiles files of crates that export C functions alone;
//! `ci/orderings.toml` says which model needs which ordering.
#![cfg(loom)]

mod checker;
mod machine;
mod weakened;

pub use checker::{
    Data, keep, model, model_by_words, prepare, spawn, watch, watch_range, watch_touched,
};
pub use loom::thread::{JoinHandle, yield_now};
pub use machine::Modelled;
