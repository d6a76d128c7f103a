//! Object caches in C: the functions of `include/slabyard.h` on one yard, malloc left alone.
//!
//! [`entry`] has the two calls that programs make most, as the pop and push sequences themselves;
//! [`slow`] what they cannot do; [`handles`] what C names caches by, and [`caches`] checks those that
//! it passes; [`create`] how caches come and go, and [`aliases`] what merged ones are called beside; [`objects`] the other calls on objects; [`sheaf`] prefilled sheaves; [`kmalloc`] requests of any size;
//! [`rcu`] readers, and frees after them; [`mempool`] reserves; [`shrinkers`] what a program can give back on request; [`tools`] what valgrind and AddressSanitizer are told; [`stats`] what caches hold, and [`json`] the text of it. The yard is in
//! [`state`], and starts at the first call, of any function.
//!
//! What this library and malloc's both do (start, options, fork, misuse, helper) is
//! `slabyard-process`, to which [`object_caches`] says what is different here.
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
