//! Object caches for C: the functions of `include/slabyard.h` on one yard. They do not replace
//! malloc.
//!
//! [`entry`] implements the two most frequent calls as the pop and push sequences; [`slow`] serves
//! calls that these cannot. [`handles`] stores the handles of caches, and [`caches`] checks those
//! that a program passes. [`create`] creates and destroys caches, and [`aliases`] publishes the
//! additional names of merged ones. The other calls are in [`bulk`] and [`objects`] (on objects),
//! [`sheaf`] (prefilled sheaves), [`kmalloc`] (requests of any size), [`rcu`] (read sections, and
//! frees after them), [`mempool`] (reserves) and [`shrinkers`] (what a program can free on request).
//! [`tools`] reports objects to valgrind and AddressSanitizer; [`stats`] samples what caches hold,
//! and [`json`] formats it. The first call to any function starts the yard ([`state`]).
//!
//! `slabyard-process` contains the code that this library shares with malloc's (start, options,
//! fork, misuse, helper); [`object_caches`] contains the differences.
#![cfg_attr(panic = "abort", no_std)]
#![warn(missing_docs)]

mod aliases;
mod bulk;
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
