//! Tools for tests of yards.
//!
//! * [`machine`]: a platform of virtual CPUs with any page size. Its threads take turns by a seed,
//!   its memory requests can be made to fail, and bugs are planted in it that checks must find.
//! * [`Random`]: the seeded random generator of the tests.
//! * [`read_word`], [`write_word`]: access to objects' memory, as a program would.
//!
//! Crates have this one among their dev-dependencies, and so does `slabyard-platform`, on which it
//! stands: unit tests beside that crate's sources would see another `slabyard-platform` than this
//! crate does, so its tests that need a machine are in `tests/`.
#![warn(missing_docs)]

pub mod machine;
mod random;
mod words;

pub use random::Random;
pub use words::{read_word, write_word};
