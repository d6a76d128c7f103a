//! The process that is read or receives a request: checks whether access is permitted and, if not,
//! which rule forbids it.
//!
//! Neighbours: [`super::sample`] and [`super::ask()`] open a target; [`super::live`] reads its
//! memory.

use super::error::Error;
use super::live::LiveMemory;
use super::memory::Fault;
use super::resident::{self, Resident};
use super::yards::{self, Unreadable};
use crate::smaps::Mapping;
use procfs::ProcError;
use procfs::process::{Process, Stat};

/// An existing process, and its memory.
pub(super) struct Target {
    pub(super) pid: u32,
    pub(super) program: String,
    uid: Option<u32>,
    pub(super) memory: LiveMemory,
}

impl Target {
    pub(super) fn open(pid: u32) -> Result<Target, Error> {
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
        // A zombie soon: the system takes back its memory.
        if stat.vsize == 0 {
            return Err(Error::Ended { pid, program });
        }
        let uid = process.uid().ok();
        Ok(Target { pid, program, uid, memory: LiveMemory::new(process) })
    }

    /// Its memory is gone.
    fn has_ended(&self) -> bool {
        let stat = self.process().and_then(|process| process.stat());
        stat.map_or(true, |stat| stat.vsize == 0)
    }

    /// What its resident memory is used for; `None` if it ended.
    pub(super) fn resident(&self, mappings: &[Mapping]) -> Option<Resident> {
        let fronts = yards::fronts(&self.memory).ok()?;
        let ours: Vec<_> = fronts.iter().flat_map(resident::of_yard).collect();
        Some(Resident::of(mappings, &ours))
    }

    pub(super) fn process(&self) -> procfs::ProcResult<Process> {
        Process::new(self.pid as i32)
    }

    /// Says in words why its memory could not be used.
    pub(super) fn error(&self, lost: Unreadable) -> Error {
        let (pid, program) = (self.pid, self.program.clone());
        match lost {
            Unreadable::NoYard | Unreadable::Fault(Fault::Absent(_)) if self.has_ended() => {
                Error::Ended { pid, program }
            }
            Unreadable::NoYard => Error::NoYard { pid, program },
            Unreadable::Layout { found, known } => Error::Layout { pid, found, known },
            Unreadable::Damaged(what) => Error::Damaged { pid, what },
            Unreadable::Fault(Fault::Absent(at)) => {
                let what = format!("it points to {at:#x}, where no memory is");
                Error::Damaged { pid, what }
            }
            Unreadable::Fault(Fault::Gone) => Error::Ended { pid, program },
            Unreadable::Fault(Fault::Denied) => {
                Error::Denied { pid, program, why: denied(self.uid, scope()) }
            }
            Unreadable::Fault(Fault::Io(source)) => Error::Io { pid, source },
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
pub(super) fn denied(owner: Option<u32>, scope: Option<u32>) -> String {
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
