//! The loads of `loads/load.c`, which go on until they are told to stop.
//!
//! Neighbours: `worker` keeps one at hand; `speed`, `look` and a part of `memory` measure
//! them. Those of `compare` run to their end, and are another program's.

pub struct Load {
    pub name: &'static str,
    pub threads: usize,
}

const fn load(name: &'static str, threads: usize) -> Load {
    Load { name, threads }
}

/// All loads, those of one thread first.
pub const LOADS: &[Load] = &[
    load("pair", 1),
    load("lifo100", 1),
    load("random100", 1),
    load("lifo1000", 1),
    load("mixed", 1),
    load("prodcons", 2),
    load("larson", 2),
];
