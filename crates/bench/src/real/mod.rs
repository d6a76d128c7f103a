//! The real programs: which there are, and how each is run on its input.
//!
//! `list` has them all, `prepared` is one that is there, `inputs` what they work on;
//! `redis` and `postgres` are those that have clients. The suite `programs` measures
//! them; nothing here knows of measures.

mod inputs;
mod list;
mod postgres;
mod prepared;
mod redis;

pub use list::{PROGRAMS, Program};
pub use prepared::Prepared;
