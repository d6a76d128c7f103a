//! The function and stack that a yard offers to a stopped thread for serving requests.
//!
//! Neighbours: `abi::region::outside` numbers the words; [`super::serve()`] uses them.

use crate::process::front::Front;
use crate::process::memory::{self, Fault, Memory, MemoryPart};
use slabyard_abi::region::{Word, outside as shown};

/// Where a yard keeps what a stopped thread needs to serve: the function, the memory of its stack, and
/// the word that says which thread is at it.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(any(target_arch = "aarch64", target_arch = "x86_64")),
    allow(dead_code, reason = "no thread is stopped there")
)]
pub(crate) struct Offer {
    /// Address of the words.
    pub(super) at: u64,
    pub(super) entry: u64,
    /// Begin and end of the memory.
    pub(super) stack: [u64; 2],
    pub(super) thread: u64,
}

impl Offer {
    /// As a process has it now.
    pub(crate) fn of(memory: &dyn Memory, front: &Front) -> Result<Option<Offer>, Fault> {
        let Some(at) = front.address(Word::Outside) else { return Ok(None) };
        let bytes = memory::read(memory, &[MemoryPart { address: at, bytes: shown::WORDS * 8 }])?;
        let mut words = [0; shown::WORDS];
        words.iter_mut().zip(memory::words(&bytes)).for_each(|(to, from)| *to = from);
        let begin = words[shown::STACK];
        let Some(end) = begin.checked_add(words[shown::STACK_BYTES]) else { return Ok(None) };
        let (entry, thread) = (words[shown::ENTRY], words[shown::THREAD]);
        Ok(Some(Offer { at, entry, stack: [begin, end], thread }))
    }

    /// Address of the word that says which thread is at it.
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    pub(super) fn thread_at(&self) -> u64 {
        self.at + shown::THREAD as u64 * 8
    }
}
