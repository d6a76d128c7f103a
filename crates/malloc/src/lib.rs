//! A drop-in malloc: the C and C++ allocation functions on one yard, with the default engine.
//!
//! The yard is here ([`preload`]), and the functions are exported here ([`functions`]); what they do
//! is in `slabyard-process`, and the same with any engine in `slabyard-engines`.
//!
//! The library has neither the standard library nor an unwinder, because they would cost each
//! process one more library to load, and pages.
#![cfg_attr(panic = "abort", no_std)]
#![warn(missing_docs)]

mod functions;
mod preload;

slabyard_process::library!(preload::Preload);
