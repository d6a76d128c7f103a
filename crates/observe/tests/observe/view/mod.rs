//! The views, as text: each over fixed snapshots, against a file of `golden`.
//! With `SLABYARD_BLESS=1` the files are written anew instead of compared.

mod diff;
mod lab;
mod list;
mod openmetrics;
mod programs;
mod scene;
mod show;
