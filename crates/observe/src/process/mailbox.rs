//! Accesses a yard's mailbox from another process: reads it, writes a request, and has a thread of
//! the yard's process serve it.
//!
//! Neighbours: `slabyard_abi::region::Mail` says which side writes which word, and in which order;
//! [`super::request`] waits for the answer. Invariant: this module writes only the mailbox,
//! entries' `end` and the helper thread's futex word.

use super::collect::has_stack;
use super::front::{Front, Top};
use super::memory::{self, Fault, Memory, MemoryPart};
use super::outside::{Offer, StopOutcome};
use super::threads::Threads;
use slabyard_abi::region::{MAIL_AT, MAIL_WORDS, Mail, Word, check, helper, row};

/// The words of a mailbox.
pub(crate) type Mails = [u64; NR_MAIL];

const NR_MAIL: usize = Mail::Nanoseconds.index() - MAIL_AT + 1;

/// The mailbox of a yard of a process.
pub(crate) struct Mailbox<'a> {
    pub(crate) memory: &'a dyn Threads,
    pub(crate) front: &'a Front,
    /// How many rows of CPUs a nudge sends to the slow path.
    pub(crate) rows: usize,
}

impl Mailbox<'_> {
    /// Its words as they are now.
    pub(super) fn read(&self) -> Result<Mails, Fault> {
        let part = MemoryPart { address: self.at(Mail::Asked), bytes: MAIL_WORDS.len() * 8 };
        let bytes = memory::read(self.memory, &[part])?;
        let mut mail = [0; NR_MAIL];
        mail.iter_mut().zip(memory::words(&bytes)).for_each(|(to, from)| *to = from);
        Ok(mail)
    }

    /// Address of a word.
    fn at(&self, word: Mail) -> u64 {
        self.front.at + (word.index() * 8) as u64
    }

    /// Writes the request, and then the word that publishes it.
    pub(super) fn place(&self, words: [u64; 5], token: u64) -> Result<(), Fault> {
        let [what, cache, generation, key, value] = words;
        let check = check([token, what, cache, generation, key, value]);
        let words = words.iter().chain([&check]);
        let bytes: Vec<u8> = words.flat_map(|w| w.to_le_bytes()).collect();
        self.memory.write(&[self.at(Mail::What)], &bytes)?;
        self.write_asked(token)
    }

    /// Writes only the word that says which request is in the mailbox.
    pub(super) fn write_asked(&self, token: u64) -> Result<(), Fault> {
        self.memory.write(&[self.at(Mail::Asked)], &token.to_le_bytes())
    }

    /// Wakes the process's helper, if it has one.
    pub(super) fn rouse(&self) -> Result<(), Fault> {
        let Some((word, thread)) = helper(self.memory, self.front)? else { return Ok(()) };
        self.memory.write(&[word], &helper::WOKEN.to_le_bytes())?;
        self.memory.rouse(thread);
        Ok(())
    }

    /// Makes an idle thread serve.
    pub(super) fn serve_by_stopped(&self) -> Result<StopOutcome, Fault> {
        match Offer::of(self.memory, self.front)? {
            None => Ok(StopOutcome::None),
            Some(offer) => self.memory.serve_by_stopped(offer),
        }
    }

    /// Sends the next free of these caches to its slow path, on every row that has a
    /// stack. A row that is exchanged at this moment keeps its end: the next nudge
    /// finds it.
    pub(super) fn nudge(&self, slots: &[usize]) -> Result<(), Fault> {
        let row_bytes = self.front.row_bytes(self.memory)?;
        let rows: Vec<MemoryPart> = self.front.rows(self.rows, row_bytes).collect();
        let bytes = memory::read(self.memory, &rows)?;
        let mut ends = Vec::new();
        let used = bytes.chunks(row_bytes).enumerate().filter(|(_, row)| has_stack(row));
        for (number, row) in used {
            for slot in slots.iter().filter(|slot| (*slot + 1) * row::ENTRY_BYTES <= row_bytes) {
                let entry = slot * row::ENTRY_BYTES;
                let stack = matches!(self.front.top(memory::half(row, entry)), Top::Stack { .. });
                if stack && memory::half(row, entry + row::END) != 0 {
                    ends.push(self.front.entry(number, *slot) + row::END as u64);
                }
            }
        }
        self.memory.write(&ends, &0u32.to_le_bytes())
    }
}

/// The helper of a yard: the address of the word that it sleeps on, and its number.
pub(crate) fn helper(memory: &dyn Memory, front: &Front) -> Result<Option<(u64, u32)>, Fault> {
    let Some(address) = front.address(Word::Helper) else { return Ok(None) };
    let bytes = memory::read(memory, &[MemoryPart { address, bytes: helper::WORDS * 4 }])?;
    let thread = memory::half(&bytes, helper::THREAD * 4);
    Ok((thread != 0).then_some((address + helper::WORD as u64 * 4, thread)))
}

/// One word of a mailbox that was read.
pub(crate) fn get(mail: &Mails, word: Mail) -> u64 {
    mail[word.index() - MAIL_AT]
}

/// True if a request is as its requester wrote it.
pub(super) fn is_whole(mail: &Mails) -> bool {
    let [asked, what, cache, generation, key, value, sum, ..] = *mail;
    check([asked, what, cache, generation, key, value]) == sum
}
