//! Object caches in C: the functions of `include/slabyard.h` on one yard, malloc left alone.
//!
//! [`entry`] has the two calls that programs make most, as the pop and push sequences; [`slow`]
//! serves what these cannot; [`handles`] has the handles that name caches, and [`caches`] checks
//! those that a program passes; [`create`] creates and destroys caches, and [`aliases`] has
//! further names of merged ones; [`objects`] has the other calls on objects; [`sheaf`] prefilled
//! sheaves; [`kmalloc`] requests of any size; [`rcu`] readers, and frees after them; [`mempool`]
//! reserves; [`shrinkers`] what a program can free on request; [`tools`] reports to valgrind and
//! AddressSanitizer; [`stats`] what caches hold, and [`json`] the text of it. The yard is in
//! [`state`], and starts at the first call, of any function.
//!
//! What this library and malloc's both do (start, options, fork, misuse, helper) is in
//! `slabyard-process`; [`object_caches`] has what differs here.
#![cfg_attr(panic = "abort", no_std)]
#![warn(missing_docs)]

mod aliases;
mod caches;
mod create;
mod entry;
mod handles;
mod json;
mod kmalloc;
mod mempool;
mod mutex;
mod names;
mod object_caches;
mod objects;
mod rcu;
mod sheaf;
mod shrinkers;
mod slow;
mod state;
mod stats;
mod tools;

slabyard_process::library!(state::ObjectCaches);
