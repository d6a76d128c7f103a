//! The real programs: which ones there are, and how each is run on its input.
//!
//! `list` has all programs, `prepared` is an installed program with its input, `inputs` makes the
//! inputs; `redis` and `postgres` run servers with clients. The suite `programs` does the
//! measuring.

mod inputs;
mod list;
mod postgres;
mod prepared;
mod redis;

pub use list::{PROGRAMS, Program};
pub use prepared::Prepared;
