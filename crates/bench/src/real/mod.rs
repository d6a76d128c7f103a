//! The real programs: which ones there are, and how each is run on its input.
//!
//! `list` has them all, `prepared` is an installed program with its input, `inputs` makes the
//! inputs; `redis` and `postgres` are the ones with clients. The suite `programs` measures them;
//! nothing here deals with measures.

mod inputs;
mod list;
mod postgres;
mod prepared;
mod redis;

pub use list::{PROGRAMS, Program};
pub use prepared::Prepared;
