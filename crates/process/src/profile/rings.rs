//! The two rings of records, of samples and of frees, in the memory that the reader reads.
//!
//! Neighbours: `slabyard_abi::profile` describes the records; [`super::stack`] fills in the stack.
//! Invariants: a writer never waits: a record without room is counted as lost; a record's first
//! word is written last.

use super::{arch, stack};
use crate::library::Library;
use slabyard::sync::{AtomicU64, Ordering};
use slabyard_abi::profile::{
    FREES, FREES_AT, SAMPLE_BYTES, SAMPLES, SAMPLES_AT, freed, head, sample,
};

/// A word of the memory.
pub(super) fn word_at(address: usize) -> &'static AtomicU64 {
    // SAFETY: inside of the memory that `begin` of the module above mapped, which nobody unmaps.
    unsafe { &*(address as *const AtomicU64) }
}

fn head(memory: usize, word: usize) -> &'static AtomicU64 {
    word_at(memory + word * 8)
}

/// A profile begins: what an earlier one left is not taken.
pub(super) fn begin(memory: usize) {
    for (taken, claimed) in [(head::SAMPLES_TAKEN, head::SAMPLES), (head::FREES_TAKEN, head::FREES)]
    {
        let claimed = head(memory, claimed).load(Ordering::Relaxed);
        head(memory, taken).store(claimed, Ordering::Relaxed);
    }
    for lost in [head::SAMPLES_LOST, head::FREES_LOST] {
        head(memory, lost).store(0, Ordering::Relaxed);
    }
}

/// Claims the next position of a ring of `room` records; `None`, and one more lost, if it is full.
fn claim(memory: usize, [claimed, taken, lost]: [usize; 3], room: usize) -> Option<u64> {
    let next = head(memory, claimed);
    loop {
        let position = next.load(Ordering::Relaxed);
        // Acquire: the reader has read what this record overwrites.
        let taken = head(memory, taken).load(Ordering::Acquire);
        if position.wrapping_sub(taken) >= room as u64 {
            head(memory, lost).fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let after = position + 1;
        if next.compare_exchange(position, after, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return Some(position);
        }
    }
}

/// A sample's record that is being written.
pub(super) struct SampleRecord {
    memory: usize,
    position: u64,
}

/// Takes the next free record, if there is one, for the caller alone.
pub(super) fn claim_sample(memory: usize) -> Option<SampleRecord> {
    let words = [head::SAMPLES, head::SAMPLES_TAKEN, head::SAMPLES_LOST];
    let position = claim(memory, words, SAMPLES)?;
    Some(SampleRecord { memory, position })
}

impl SampleRecord {
    /// By which the sample is known: never 0.
    pub(super) fn sequence(&self) -> u64 {
        self.position + 1
    }

    fn at(&self) -> usize {
        self.memory + SAMPLES_AT + (self.position as usize % SAMPLES) * SAMPLE_BYTES
    }

    fn put(&self, word: usize, value: u64) {
        word_at(self.at() + word * 8).store(value, Ordering::Relaxed);
    }

    fn publish(self) {
        // Release: who sees the sequence sees the record.
        let sequence = word_at(self.at() + sample::SEQUENCE * 8);
        sequence.store(self.sequence(), Ordering::Release);
    }

    /// There is no such sample after all.
    pub(super) fn forget(self) {
        self.put(sample::BYTES, 0);
        self.publish();
    }

    /// There is no room for it elsewhere.
    pub(super) fn lose(self) {
        head(self.memory, head::SAMPLES_LOST).fetch_add(1, Ordering::Relaxed);
        self.forget();
    }

    /// Writes the sample of this call.
    #[inline(always)]
    pub(super) fn write<L: Library>(self, bytes: usize, rate: u64, now_ns: u64) {
        let platform = L::yard().platform();
        self.put(sample::BYTES, bytes as u64);
        self.put(sample::RATE, rate);
        self.put(sample::THREAD, platform.thread_number().into());
        self.put(sample::TIME, now_ns);
        let registers = arch::registers();
        let stack = stack::copy::<L>(registers[1], self.at() + sample::STACK * 8);
        let words = [sample::INSTRUCTION, sample::STACK_POINTER, sample::FRAME_POINTER];
        words.into_iter().zip(registers).for_each(|(word, value)| self.put(word, value as u64));
        self.put(sample::STACK_BYTES, stack as u64);
        self.publish();
    }
}

/// Adds the free of a sample.
pub(super) fn add_free(memory: usize, sequence: u64, now_ns: u64) {
    let words = [head::FREES, head::FREES_TAKEN, head::FREES_LOST];
    let Some(position) = claim(memory, words, FREES) else { return };
    let at = memory + FREES_AT + (position as usize % FREES) * freed::WORDS * 8;
    word_at(at + freed::SAMPLE * 8).store(sequence, Ordering::Relaxed);
    word_at(at + freed::TIME * 8).store(now_ns, Ordering::Relaxed);
    // Release: as in `publish`.
    word_at(at + freed::SEQUENCE * 8).store(position + 1, Ordering::Release);
}
