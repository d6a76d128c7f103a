//! A drop-in malloc that contains every engine, one of which serves a process: the C and C++
//! allocation functions of `slabyard-malloc`, with features for which users of that library do not
//! pay.
//!
//! The yard is defined here ([`any`]), the options choose its engine ([`choice`]), and the
//! functions are exported here ([`functions`]); their code is in `slabyard-process`.
#![cfg_attr(panic = "abort", no_std)]
#![warn(missing_docs)]

mod any;
mod choice;
mod functions;
mod state;

slabyard_process::library!(state::AnyEngine);
