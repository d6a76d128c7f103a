//! The screen without a terminal: keys in, pictures out; and the loop on a terminal
//! of ours.

mod keys;
mod looks;
mod pictures;
mod terminal;
