//! Questions to the lab, for the command and for other programs: what a load would do on other
//! machines, under other rules, and what the answer is worth.
//!
//! Neighbours: `slabyard-lab` reads traces, replays and checks; the `slabyard` command types the
//! questions and prints the answers. Invariants: nothing here prints or ends the process; what people
//! should know goes to a [`Listener`]; the same files and questions give the same answers.
//!
//! [`threads`] puts what mail threads measured beside what the lab says.
//!
//! Modules import downwards only: asked, boot, sweep, threads, tune > trust, answers > waits > answer > costs, question, figures, geometry, prepare > load > wanted > axis, sizes,
//! files > listener, error.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod answer;
pub mod answers;
pub mod asked;
pub mod axis;
pub mod boot;
pub mod costs;
mod error;
pub mod figures;
pub mod files;
pub mod geometry;
mod listener;
pub mod load;
pub mod prepare;
pub mod question;
pub mod sizes;
pub mod sweep;
pub mod threads;
pub mod trust;
pub mod tune;
pub mod waits;
pub mod wanted;

pub use error::Error;
pub use listener::{Listener, Notes, Silent};
pub use wanted::Wanted;
