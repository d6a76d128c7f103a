//! A process that runs on Slabyard, read from outside: it is not stopped, and no
//! thread, socket or signal of it takes part.
//!
//! [`sample`] finds the yard by its magic and decodes what
//! `slabyard_abi::region` describes; [`ask()`] writes a request into its mailbox.
//! The walk "I am a number on the screen" begins here for a process:
//!
//! ```text
//! memory (live, core)  find  front  collect  judge  walk  look  tell  Snapshot
//! ```
//!
//! Neighbours: [`crate::corefile`] reads the same from a core file.
//! Invariants: every number of the target is hostile: what it says bounds no loop and
//! no buffer before it has been checked, and nothing in it is followed as a link.
//!
//! A process may hold several yards (malloc's, its own and a plug-in's): a snapshot has the caches
//! of all ([`yards`]).

mod aliases;
mod ask;
mod banks;
mod collect;
mod counts;
mod cpu_slabs;
mod error;
mod find;
mod front;
mod held;
mod judge;
mod live;
mod look;
mod mailbox;
pub(crate) mod memory;
mod nodes;
mod outside;
#[cfg(test)]
pub(crate) mod planted;
mod pressure;
mod resident;
mod rouse;
pub(crate) mod sites;
mod span;
mod tell;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_cpu_slabs;
mod walk;
mod words;
pub(crate) mod yards;

pub use ask::{Answer, Ask, Asked, Patience, Standing, ask, ask_each, ask_each_within, ask_within};
pub use error::Error;
pub use outside::Outside;

use crate::snapshot::{Kind, Snapshot, Source};
use crate::symbols;
use crate::traces::Traces;
use crate::want::Want;
use live::Live;
use memory::Fault;
use procfs::ProcError;
use procfs::process::{Process, Stat};
use resident::Resident;
use std::path::PathBuf;
use yards::Lost;

/// A process that is there.
struct Target {
    pid: u32,
    program: String,
    uid: Option<u32>,
    memory: Live,
}

/// What a process holds now.
///
/// # Errors
/// If it is not there, may not be read, or does not run on Slabyard.
pub fn sample(pid: u32, want: Want) -> Result<Snapshot, Error> {
    let target = Target::open(pid)?;
    let mut source = Source::of(Kind::Process);
    source.pid = Some(pid);
    source.program = Some(target.program.clone());
    let mut snapshot =
        yards::sample(&target.memory, want, source).map_err(|why| target.error(why))?;
    // Beside the sum of the parts: what the system counts for the whole process.
    if let Ok(statm) = target.process().and_then(|p| p.statm()) {
        let resident = statm.resident.saturating_mul(procfs::page_size());
        snapshot.totals.insert("resident".into(), resident.into());
    }
    if let Some(resident) = target.resident() {
        let parts = resident.totals().map(|(name, bytes)| (name.to_owned(), bytes.into()));
        snapshot.totals.extend(parts);
    }
    Ok(snapshot)
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

impl Target {
    fn open(pid: u32) -> Result<Target, Error> {
        let gone = |_: ProcError| Error::NoSuchProcess { pid };
        let number = i32::try_from(pid).map_err(|_| Error::NoSuchProcess { pid })?;
        let process = Process::new(number).map_err(gone)?;
        let stat = process.stat().map_err(gone)?;
        let program = stat.comm.clone();
        if matches!(stat.state, 'Z' | 'X') {
            return Err(Error::Zombie { pid, program });
        }
        if of_the_kernel(&stat) {
            return Err(Error::KernelThread { pid, program });
        }
        let uid = process.uid().ok();
        Ok(Target { pid, program, uid, memory: Live::new(process) })
    }

    /// Whose its resident memory is; `None` where the system does not tell.
    fn resident(&self) -> Option<Resident> {
        let smaps = std::fs::read(format!("/proc/{}/smaps", self.pid)).ok()?;
        let fronts = yards::fronts(&self.memory).ok()?;
        let ours: Vec<_> = fronts.iter().flat_map(resident::of_yard).collect();
        Resident::parse(&String::from_utf8_lossy(&smaps), &ours)
    }

    fn process(&self) -> procfs::ProcResult<Process> {
        Process::new(self.pid as i32)
    }

    /// Says in words why its memory could not be used.
    fn error(&self, lost: Lost) -> Error {
        let (pid, program) = (self.pid, self.program.clone());
        match lost {
            Lost::NoYard => Error::NoYard { pid, program },
            Lost::Layout { found, known } => Error::Layout { pid, found, known },
            Lost::Damaged(what) => Error::Damaged { pid, what },
            Lost::Fault(Fault::Absent(at)) => {
                // It ended, or began another program: its old memory is gone.
                match self.process().and_then(|p| p.stat()) {
                    Ok(stat) if !matches!(stat.state, 'Z' | 'X') => {
                        let what = format!("it points to {at:#x}, where no memory is");
                        Error::Damaged { pid, what }
                    }
                    _ => Error::Ended { pid, program },
                }
            }
            Lost::Fault(Fault::Gone) => Error::Ended { pid, program },
            Lost::Fault(Fault::Denied) => {
                Error::Denied { pid, program, why: denied(self.uid, scope()) }
            }
            Lost::Fault(Fault::Io(source)) => Error::Io { pid, source },
        }
    }
}

/// True for a thread of the kernel: it has no memory of its own.
fn of_the_kernel(stat: &Stat) -> bool {
    /// `PF_KTHREAD` of the flags in `/proc/PID/stat`.
    const KERNEL_THREAD: u32 = 0x0020_0000;
    stat.flags & KERNEL_THREAD != 0
}

/// Yama's rule of who may look; `None` in a kernel without it.
fn scope() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?;
    text.trim().parse().ok()
}

/// Which rule forbids to look, and what to do.
fn denied(owner: Option<u32>, scope: Option<u32>) -> String {
    let me = nix::unistd::geteuid().as_raw();
    match (owner, scope) {
        _ if me == 0 => "even root needs the capability CAP_SYS_PTRACE here, as in a container; \
            look from where it is had"
            .into(),
        (Some(uid), _) if uid != me => {
            format!("it belongs to another user ({uid}); look as that user or as root")
        }
        (_, Some(scope @ 1..)) => format!(
            "Yama forbids it (kernel.yama.ptrace_scope is {scope}); start the program with \
             `slabyard run --observable -- ...`, or look as root"
        ),
        _ => "it made itself unreadable, as programs with privileges are; look as root".into(),
    }
}
