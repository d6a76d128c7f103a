//! The yard on the modelled machine.
//!
//! All tests are in one program, because each program would compile the engines that it uses
//! again. A new file of tests is a module here, or in `linux` if it is about a real system. A test has a
//! program of its own, beside these directories, only if it changes the whole program.

#[macro_use]
mod each_engine;

mod abandoned;
mod advice;
mod ahead;
mod array_caches;
mod bank;
mod bound;
mod caches;
mod checks;
mod classes;
mod coalescing;
mod conformance;
mod cpu_slabs;
mod debugging;
mod descriptors;
mod empties;
mod flush;
mod forks;
mod geometry;
mod growth;
mod huge;
mod lines;
mod locked;
mod mailbox;
mod mappings;
mod nodes;
mod page_lists;
mod rcu;
mod reclaim_slab;
mod refused;
mod rows;
mod scale;
mod sheaves;
mod slab_numbers;
mod slob;
mod sparse;
mod surplus;
mod ticker;
mod waste;
mod working_set;
