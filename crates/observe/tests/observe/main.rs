//! Snapshots, their sources and their views, tested in one program, because each further program
//! would compile and link the same code again.

mod file;
mod kernel;
mod pasted;
mod report;
mod skipped;
mod view;
