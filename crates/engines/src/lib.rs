//! A drop-in malloc with every engine in it, one of which serves a process: the C and C++
//! allocation functions of `slabyard-malloc`, with features that users of that library do not pay
//! for.
//!
//! The yard is here ([`any`]), the options choose its engine ([`choice`]), and the functions are
//! exported here ([`functions`]); what they do is in `slabyard-process`.
#![cfg_attr(panic = "abort", no_std)]
#![warn(missing_docs)]

mod any;
mod choice;
mod functions;
mod state;

slabyard_process::library!(state::AnyEngine);
