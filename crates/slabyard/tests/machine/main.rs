//! The yard on the modelled machine.
//!
//! All tests are in one program, because each program would compile the engines that it uses
//! again. A new file of tests is a module here. A test has a program of its own, beside this
//! directory, only if it asks about the whole process or about a real machine's sequences.

#[macro_use]
mod each_engine;

mod advice;
mod ahead;
mod array_caches;
mod bank;
mod bound;
mod caches;
mod checks;
mod coalescing;
mod conformance;
mod cpu_slabs;
mod descriptors;
mod empties;
mod flush;
mod forks;
mod gate;
mod growth;
mod lines;
mod locked;
mod mailbox;
mod mappings;
mod nodes;
mod page_lists;
mod reclaim_slab;
mod refused;
mod sheaves;
mod slob;
mod sparse;
mod surplus;
mod ticker;
mod waste;
mod working_set;
