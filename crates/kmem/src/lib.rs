//! Object caches for C: the functions of `include/slabyard.h` on one yard, which leave malloc
//! alone.
//!
//! [`entry`] has the two most frequent calls, as the pop and push sequences; [`slow`] serves what
//! these cannot; [`handles`] has the handles of caches, and [`caches`] checks those that a program
//! passes. [`create`] creates and destroys caches, and [`aliases`] has the other names of merged
//! ones; [`objects`] has the other calls on objects; [`sheaf`] prefilled sheaves; [`kmalloc`]
//! requests of any size; [`rcu`] read sections, and frees after them; [`mempool`] reserves;
//! [`shrinkers`] what a program can free on request. [`tools`] reports to valgrind and
//! AddressSanitizer; [`stats`] says what caches hold, and [`json`] formats it. The yard is in
//! [`state`], and is started by the first call to any function.
//!
//! What this library and malloc's have in common (start, options, fork, misuse, helper) is in
//! `slabyard-process`; [`object_caches`] has the differences.
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
