//! A drop-in malloc: the C and C++ allocation functions on one yard, with the default engine.
//!
//! [`preload`] defines the yard, and [`functions`] exports the functions, whose code is in
//! `slabyard-process`. `slabyard-engines` exports the same functions, with any engine.
//!
//! The library contains neither Rust's standard library nor an unwinder, because they would cost
//! each process memory and one more library to load.
#![cfg_attr(panic = "abort", no_std)]
#![warn(missing_docs)]

mod functions;
mod preload;

slabyard_process::library!(preload::Preload);
