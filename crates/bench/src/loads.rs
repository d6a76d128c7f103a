//! The loads of `loads/load.c`, which run as long as requested.
//!
//! `worker` keeps a load's process waiting for its next window; `speed`, `look` and part of
//! `memory` measure the loads. The loads of `compare` are in other programs, which run to
//! completion.

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
