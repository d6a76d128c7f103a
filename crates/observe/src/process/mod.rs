//! Reads a process that runs on Slabyard from outside: the process is not stopped, and none of its
//! threads, sockets or signals is used.
//!
//! [`sample`] finds the yard by its magic number and decodes what `slabyard_abi::region` describes;
//! [`ask()`] writes a request into its mailbox. The walk "I am a number on the screen" begins here
//! for a process:
//!
//! ```text
//! memory (live, core)  find  front  collect  judge  walk  look  to_snapshot  Snapshot
//! ```
//!
//! Neighbour: [`crate::corefile`] reads the same numbers from a core file. Invariant: any number in
//! the target may be hostile, so none bounds a loop or a buffer before it is checked, and none is
//! followed as a link.
//!
//! A process may hold several yards (malloc's, its own and a plug-in's): a snapshot has the caches
//! of all its yards ([`yards`]).

mod aliases;
mod ask;
mod banks;
mod cache_numbers;
mod collect;
mod counts;
mod cpu_slabs;
mod cpu_slabs_held;
mod error;
mod find;
mod front;
mod judge;
mod live;
mod look;
mod mailbox;
pub(crate) mod memory;
mod nodes;
mod outside;
#[cfg(test)]
pub(crate) mod planted;
mod present;
mod pressure;
pub mod profile;
mod request;
mod residence;
pub(crate) mod resident;
mod rouse;
pub(crate) mod sites;
mod span;
mod target;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_cpu_slabs;
mod threads;
mod to_snapshot;
mod totals;
mod walk;
mod words;
pub(crate) mod yards;

pub use ask::{
    Answer, Patience, RequestKind, YardAnswer, ask, ask_each, ask_each_within, ask_within,
};
pub use error::Error;
pub use outside::StopOutcome;
pub use request::StopThread;
pub use residence::{Residence, ResidentBlock};

use crate::smaps::{self, Mapping};
use crate::snapshot::{Snapshot, Source, SourceKind};
use crate::symbols;
use crate::traces::Traces;
use crate::want::ReadScope;
use std::path::PathBuf;
use target::Target;

/// What a process holds now.
///
/// # Errors
/// If it is not there, may not be read, or does not run on Slabyard.
pub fn sample(pid: u32, want: ReadScope) -> Result<Snapshot, Error> {
    sample_with_mappings(pid, want).map(|(snapshot, _)| snapshot)
}

/// The same with the process's mappings, of which the kernel counts each page: that takes most of the
/// time of a sample. `None` where the kernel does not show them.
///
/// # Errors
/// As [`sample`].
pub fn sample_with_mappings(
    pid: u32,
    want: ReadScope,
) -> Result<(Snapshot, Option<Vec<Mapping>>), Error> {
    let target = Target::open(pid)?;
    let mut source = Source::of(SourceKind::Process);
    source.pid = Some(pid);
    source.program = Some(target.program.clone());
    let mut snapshot =
        yards::sample(&target.memory, want, source).map_err(|why| target.error(why))?;
    // Beside the sum of the parts: what the system counts for the whole process.
    if let Ok(statm) = target.process().and_then(|p| p.statm()) {
        let resident = statm.resident.saturating_mul(procfs::page_size());
        snapshot.totals.insert("resident".into(), resident.into());
    }
    let mappings = smaps::of_process(pid).ok();
    if let Some(resident) = mappings.as_ref().and_then(|mappings| target.resident(mappings)) {
        let parts = resident.totals().map(|(name, bytes)| (name.to_owned(), bytes.into()));
        snapshot.totals.extend(parts);
    }
    Ok((snapshot, mappings))
}

/// How much of the yards of a process is resident, by use.
///
/// # Errors
/// As [`sample`].
pub fn residence(pid: u32) -> Result<Residence, Error> {
    let target = Target::open(pid)?;
    residence::read(&target.memory, pid).map_err(|why| target.error(why))
}

/// Who allocated the live objects of a cache; `None` if it keeps no tracks.
///
/// # Errors
/// As [`sample`].
pub fn traces(pid: u32, cache: &str) -> Result<Option<Traces>, Error> {
    let target = Target::open(pid)?;
    // Tracks have times of this clock.
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).ok();
    let now_ns =
        now.and_then(|now| u64::try_from(now.tv_sec() * 1_000_000_000 + now.tv_nsec()).ok());
    let read = sites::read(&target.memory, cache, now_ns);
    let mut told = read.map_err(|why| target.error(why))?;
    if let Some(traces) = &mut told {
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        symbols::name(traces, &target.memory.loaded(), Some(&root));
    }
    Ok(told)
}
