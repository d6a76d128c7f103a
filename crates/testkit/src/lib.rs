//! Tools for tests of yards.
//!
//! * [`machine`]: a platform of virtual CPUs with any page size. A seed decides the order of its
//!   threads, its memory requests can be made to fail, and bugs can be planted that checkers must
//!   find.
//! * [`parallel`]: a platform of threads that run at once, for tools that judge orderings.
//! * [`bind_to`], [`stay_on_this_cpu`]: which CPU of the system a thread runs on.
//! * [`Random`]: the seeded random generator of the tests.
//! * [`read_word`], [`write_word`]: access objects' memory as a program would.
//!
//! This crate is a dev-dependency of others, and even of `slabyard-platform`, on which it depends.
//! That crate's unit tests would use another build of `slabyard-platform` than this crate, so its
//! tests that need a machine are in `tests/`.
#![warn(missing_docs)]

mod cpus;
pub mod machine;
pub mod parallel;
mod random;
mod words;

pub use cpus::{bind_to, stay_on_this_cpu};
pub use random::Random;
pub use words::{read_word, write_word};
