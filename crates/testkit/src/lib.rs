//! What tests of yards use.
//!
//! * [`machine`]: a platform of virtual CPUs with any page size, whose threads take turns by a seed,
//!   whose memory may be refused, and in which bugs are planted that checks must find.
//! * [`Random`]: the seeded generator of the choices of tests.
//! * [`read_word`], [`write_word`]: what a program does with its objects.
//!
//! A crate has this among the dependencies of its tests, and `slabyard` itself, too: tests beside its
//! sources would see another `slabyard` than this crate does, so those that need a machine are in
//! `tests/`.
#![warn(missing_docs)]

pub mod machine;
mod random;
mod words;

pub use random::Random;
pub use words::{read_word, write_word};
