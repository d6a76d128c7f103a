//! The command as its users meet it: processes, files, signals, a terminal.

mod changing;
mod exporting;
mod geometry;
mod looking;
mod pages;
mod places;
mod replay;
mod reports;
mod running;
mod saved_replay;
mod signals;
mod stage;
mod terminal;
mod top;
