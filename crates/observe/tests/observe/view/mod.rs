//! The views, as text: each view of fixed snapshots is compared with a file of `golden`. With
//! `SLABYARD_BLESS=1` the files are rewritten instead of compared.

mod diff;
mod lab;
mod list;
mod openmetrics;
mod programs;
mod scene;
mod show;
