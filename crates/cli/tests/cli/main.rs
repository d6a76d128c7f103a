//! The command as its users meet it: processes, files, signals, a terminal.

mod pages;
mod places;
mod reports;
mod running;
mod signals;
mod stage;
mod terminal;
