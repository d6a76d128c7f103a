//! Serves a request where the process stands still: a thread of it that waits in a system call is stopped
//! (ptrace(2)), serves its mailbox, and waits in its call again.
//!
//! ```text
//! serve: candidates -> thread: stop, write the frame, work, go on
//!            calls         frame
//! ```
//!
//! Neighbours: [`super::mailbox`] has placed the request and was not answered; `abi::region::outside` says
//! what the process offers; [`super::rouse`] wakes a helper instead.
//! Invariants: one thread at a time, which has memory of the library's as its stack and
//! takes the library's locks alone; no other thread is stopped; who ends meanwhile leaves a
//! process that goes on by itself.

#[cfg(target_arch = "x86_64")]
mod calls;
#[cfg(target_arch = "x86_64")]
mod candidates;
#[cfg(target_arch = "x86_64")]
mod frame;
#[cfg(target_arch = "x86_64")]
mod serve;
#[cfg(target_arch = "x86_64")]
mod thread;

use super::front::Front;
use super::memory::{self, Fault, Part, Writable};
use slabyard_abi::region::{Word, outside as shown};

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outside {
    /// It was not tried: who asks does not want it.
    #[default]
    Unwanted,
    /// The process offers it not: its library is older, it has a filter of system calls, or
    /// we do not know its processor.
    None,
    /// The system does not let us stop a thread.
    Denied,
    /// No thread stands in a call that goes on after it.
    NoThread,
    /// A thread that was stopped by another command has the memory still.
    Taken,
    /// A thread looked, or could not now because of what others do.
    Looked,
    /// Serving may call functions of the program.
    Foreign,
    /// A thread serves for so long that it was let go: it serves to the end by itself.
    Left,
}

/// What a yard offers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// Address of the words.
    at: u64,
    entry: u64,
    /// Begin and end of the memory.
    stack: [u64; 2],
    thread: u64,
}

impl Offer {
    /// As a process has it now.
    pub(super) fn of(memory: &dyn Writable, front: &Front) -> Result<Option<Offer>, Fault> {
        let Some(at) = front.address(Word::Outside) else { return Ok(None) };
        let bytes = memory::read(memory, &[Part { address: at, bytes: shown::WORDS * 8 }])?;
        let mut words = [0; shown::WORDS];
        words.iter_mut().zip(memory::words(&bytes)).for_each(|(to, from)| *to = from);
        let begin = words[shown::STACK];
        let Some(end) = begin.checked_add(words[shown::STACK_BYTES]) else { return Ok(None) };
        let (entry, thread) = (words[shown::ENTRY], words[shown::THREAD]);
        Ok(Some(Offer { at, entry, stack: [begin, end], thread }))
    }

    #[cfg(target_arch = "x86_64")]
    fn thread_at(&self) -> u64 {
        self.at + shown::THREAD as u64 * 8
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn serve(_: nix::unistd::Pid, _: &dyn Writable, _: Offer) -> Result<Outside, Fault> {
    Ok(Outside::None)
}

#[cfg(target_arch = "x86_64")]
pub(super) use serve::serve;
