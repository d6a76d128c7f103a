//! The fence: `membarrier` aborts the restartable sequences (rseq) under way on all CPUs that run
//! our threads (membarrier(2)).
//!
//! Neighbours: the platform calls this fence in modes with restartable sequences;
//! [`super::readers`] implements the fence for readers.
//! Invariant: once the kernel has refused the call, only the child of a fork tries it again.

use crate::sync::{AtomicU32, Ordering};
use crate::sys;

const QUERY: usize = 0;
const PRIVATE_EXPEDITED_RSEQ: usize = 1 << 7;
const REGISTER_PRIVATE_EXPEDITED_RSEQ: usize = 1 << 8;

const NOT_READY: u32 = 0;
const REGISTERED: u32 = 1;
/// It was refused after it was registered.
const REFUSED: u32 = 2;

/// Whether the process is registered.
pub(super) struct Fence(AtomicU32);

/// For a fence of all CPUs the kernel looks what each of them runs; for one of a CPU it looks at
/// that alone, and interrupts none that runs no thread of ours (`kernel/sched/membarrier.c`). Of so
/// small a part of the CPUs each is fenced by itself.
pub(super) const PART: usize = 4;

/// Of a CPU alone, if one is named (as old as the command).
fn call(command: usize, cpu: Option<usize>) -> isize {
    let flag = usize::from(cpu.is_some());
    // SAFETY: no memory is passed.
    unsafe { sys::call(sys::MEMBARRIER, [command, flag, cpu.unwrap_or(0), 0, 0, 0]) }
}

impl Fence {
    pub(super) const fn new() -> Self {
        Fence(AtomicU32::new(NOT_READY))
    }

    /// Registers the process, if that was not tried.
    pub(super) fn prepare(&self) {
        const COMMANDS: isize = (PRIVATE_EXPEDITED_RSEQ | REGISTER_PRIVATE_EXPEDITED_RSEQ) as isize;
        if self.0.load(Ordering::Relaxed) == NOT_READY
            && call(REGISTER_PRIVATE_EXPEDITED_RSEQ, None) == 0
            // Who answers 0 to everything does not fence: the commands that are there must be named.
            && call(QUERY, None) & COMMANDS == COMMANDS
        {
            self.0.store(REGISTERED, Ordering::Relaxed);
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.0.load(Ordering::Relaxed) == REGISTERED
    }

    /// False if the kernel refuses it: a filter that the program installed after its start. It stays.
    pub(super) fn make(&self) -> bool {
        let done = call(PRIVATE_EXPEDITED_RSEQ, None) == 0;
        if !done {
            self.refuse();
        }
        done
    }

    /// Of the sequences on one CPU. False if the kernel refuses it, which may fence all CPUs then.
    pub(super) fn make_on(&self, cpu: usize) -> bool {
        call(PRIVATE_EXPEDITED_RSEQ, Some(cpu)) == 0
    }

    /// It is not called any more.
    pub(super) fn refuse(&self) {
        self.0.store(REFUSED, Ordering::Relaxed);
    }

    /// In a child, which has no registration.
    pub(super) fn forget(&self) {
        self.0.store(NOT_READY, Ordering::Relaxed);
    }
}
