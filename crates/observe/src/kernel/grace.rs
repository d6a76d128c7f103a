//! Waits until what `kfree_rcu()` freed has come back to sheaves and slabs.
//!
//! Since 6.18 a kernel collects such objects in sheaves. A full one waits for RCU's readers, and how
//! many wait is bounded by nothing and told by no file: after 20,000 frees at once 18,900 objects
//! were counted as active. They are back after a grace period, which `membarrier(2)` of all threads
//! waits for (`kernel/sched/membarrier.c`).
//!
//! Neighbours: [`super::sample`] waits before it reads; who shrinks waits, and shrinks again.

use crate::release::Release;
use rustix::thread::{MembarrierCommand, membarrier};
use std::fs;

/// Grace periods that are waited for: the functions that free are called when the first is over, and
/// the second ends after most of them ran.
const PERIODS: u32 = 2;

/// Waits on a kernel with sheaves; false on others, whose objects wait in batches for up to 5 s, and
/// where the kernel refuses it, as one does whose CPUs run without a tick.
#[must_use]
pub fn wait_for_readers() -> bool {
    has_sheaves() && (0..PERIODS).all(|_| membarrier(MembarrierCommand::Global).is_ok())
}

fn has_sheaves() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease");
    release.ok().and_then(|text| Release::parse(&text)).is_some_and(|release| release.has_sheaves())
}
