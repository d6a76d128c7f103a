//! A drop-in malloc: the C and C++ allocation functions on one yard.
//!
//! The only `static` yard of the house is here ([`state`]). `malloc` and `free`
//! themselves are the pop and push sequences ([`entry`]); everything they cannot
//! do in one committing store comes to [`c`]. [`start`] makes the yard ready at
//! the first call, whoever makes it, and [`fork`], [`bad`], [`report`] do what
//! their names say.
#![warn(missing_docs)]

mod bad;
mod c;
mod cxx;
mod entry;
mod fork;
mod info;
mod observe;
mod options;
mod report;
mod start;
mod state;
mod text;
