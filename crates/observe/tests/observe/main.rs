//! Snapshots, their sources and their views, in one program: each program would compile and link
//! what it uses anew.

mod file;
mod kernel;
mod report;
mod view;
