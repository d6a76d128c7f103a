//! Tests of the screen without a terminal (keys in, pictures out), and of the loop on a
//! pseudo-terminal.

mod keys;
mod looks;
mod pictures;
mod terminal;
