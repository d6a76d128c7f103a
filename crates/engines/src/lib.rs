//! A drop-in malloc that contains every engine; a process uses one of them. It exports the C and
//! C++ allocation functions of `slabyard-malloc`, and adds features that would slow or enlarge that
//! library.
//!
//! [`any`] configures the yard, [`choice`] reads its engine from the options, and [`functions`]
//! exports the functions, whose code is in `slabyard-process`.
#![cfg_attr(panic = "abort", no_std)]
#![warn(missing_docs)]

mod any;
mod choice;
mod functions;
mod state;

slabyard_process::library!(state::AnyEngine);
