//! Samples the allocations of a process: switches its library's sampling on and off, and takes the
//! samples and the frees of sampled blocks out of its memory.
//!
//! Neighbours: `slabyard_abi::profile` describes words and records; [`crate::profile`] unwinds the
//! stacks and adds the samples up. Invariants: no thread of the process is stopped and no signal is
//! sent; a process that makes no call of `malloc` begins at its next one; what a record says is
//! within bounds, and is not trusted further.

use super::error::Error;
use super::memory::{self, Fault, MemoryPart, Writable};
use super::target::Target;
use super::yards::{self, Unreadable};
use crate::symbols::Loaded;
use slabyard_abi::profile::{
    BYTES, FREES, FREES_AT, PATIENCE_NS, SAMPLE_BYTES, SAMPLES, SAMPLES_AT, STACK_BYTES, State,
    control, freed, head, sample,
};
use slabyard_abi::region::Word;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A record that a thread of the process claimed and did not write for so long is left out: its
/// thread was ended in the midst of it, or jumped out of a signal handler.
const STALLED: Duration = Duration::from_secs(2);
/// Most samples that are read at once.
const BATCH: usize = 64;
/// How long the process has to answer before it counts as one that makes no calls.
const ANSWER: Duration = Duration::from_millis(300);

/// One sampled allocation.
#[derive(Clone, Debug)]
pub struct Sample {
    /// By which its free names it.
    pub sequence: u64,
    /// The bytes requested.
    pub bytes: u64,
    /// The system's number of the thread.
    pub thread: u32,
    /// When, by the monotonic clock in nanoseconds.
    pub time_ns: u64,
    /// The mean distance of samples with which it was drawn, in bytes.
    pub rate: u64,
    /// Instruction pointer, stack pointer and frame pointer at the call, inside of the library.
    pub registers: [u64; 3],
    /// The stack from the stack pointer on.
    pub stack: Vec<u8>,
}

impl Sample {
    /// How many allocations of its size this one stands for.
    #[must_use]
    pub fn weight(&self) -> f64 {
        let drawn = -(-(self.bytes as f64) / self.rate.max(1) as f64).exp_m1();
        if drawn > 0.0 { 1.0 / drawn } else { 1.0 }
    }
}

/// The free of a sampled block.
#[derive(Clone, Copy, Debug)]
pub struct SampleFree {
    /// The sequence of the block's sample.
    pub sequence: u64,
    /// When, by the monotonic clock in nanoseconds.
    pub time_ns: u64,
}

/// What one look found.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// Sampled allocations, the oldest first.
    pub samples: Vec<Sample>,
    /// Frees of sampled blocks. One may be of a sample that a later look finds.
    pub frees: Vec<SampleFree>,
    /// Samples that were not kept so far, because nobody took the earlier ones.
    pub lost_samples: u64,
    /// Frees that were not kept so far.
    pub lost_frees: u64,
    /// The process ends, and waits for [`Session::let_end`].
    pub ends: bool,
}

/// A profile that is on in a process. When it is dropped, the process samples no more.
pub struct Session {
    target: Target,
    control: u64,
    /// Positions of the next records.
    next: [u64; 2],
    /// The sequence of the last sample before this profile's.
    before: u64,
    /// Since when the next sample has not been written, if it is claimed.
    stalled: Option<Instant>,
    generation: Option<u64>,
    /// The process samples for this session.
    is_ours: bool,
}

/// Words of the process, as they are now.
fn words(target: &Target, address: u64, nr: usize) -> Result<Vec<u64>, Fault> {
    let bytes = memory::read(&target.memory, &[MemoryPart { address, bytes: nr * 8 }])?;
    Ok(memory::words(&bytes).collect())
}

fn now_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).ok();
    let ns = now.map(|now| now.tv_sec() * 1_000_000_000 + now.tv_nsec());
    ns.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0)
}

impl Session {
    /// Asks a process to sample its allocations, on average one in `rate` bytes.
    ///
    /// # Errors
    /// As [`super::sample`]; if its library does not sample, or refuses to, or another reader
    /// profiles it.
    pub fn begin(pid: u32, rate: u64) -> Result<Session, Error> {
        let mut session = Session::open(pid)?;
        session.ask(rate).map_err(|why| session.target.error(why.into()))??;
        Ok(session)
    }

    /// The profile that a process began by itself, as its options said.
    ///
    /// # Errors
    /// As [`Session::begin`].
    pub fn join(pid: u32) -> Result<Session, Error> {
        let mut session = Session::open(pid)?;
        session.is_ours = true;
        Ok(session)
    }

    fn open(pid: u32) -> Result<Session, Error> {
        let target = Target::open(pid)?;
        let fronts = yards::fronts(&target.memory).map_err(|why| target.error(why))?;
        let control = fronts.iter().find_map(|front| front.address(Word::Profile));
        let Some(control) = control else {
            return Err(Error::NoProfile { pid, program: target.program });
        };
        Ok(Session {
            target,
            control,
            next: [0; 2],
            before: 0,
            stalled: None,
            generation: None,
            is_ours: false,
        })
    }

    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.target.pid
    }

    /// The name of its program.
    #[must_use]
    pub fn program(&self) -> &str {
        &self.target.program
    }

    /// Files in its memory.
    pub(crate) fn loaded(&self) -> Vec<Loaded> {
        self.target.memory.loaded()
    }

    fn put(&self, word: usize, value: u64) -> Result<(), Fault> {
        self.target.memory.write(&[self.control + word as u64 * 8], &value.to_le_bytes())
    }

    fn ask(&mut self, rate: u64) -> Result<Result<(), Error>, Fault> {
        let pid = self.target.pid;
        let seen = words(&self.target, self.control, control::WORDS)?;
        let attended = now_ns().saturating_sub(seen[control::ATTENDED]) < PATIENCE_NS;
        if seen[control::RATE] != 0 && attended {
            return Ok(Err(Error::Profiled { pid }));
        }
        self.is_ours = true;
        self.put(control::ATTENDED, now_ns())?;
        self.put(control::STATE, State::Off as u64)?;
        self.put(control::RATE, rate)?;
        let end = Instant::now() + ANSWER;
        while Instant::now() < end {
            sleep(Duration::from_millis(1));
            let seen = words(&self.target, self.control, control::WORDS)?;
            match State::of(seen[control::STATE]) {
                Some(State::On) => break,
                Some(State::Off) => {
                    self.target.memory.write(&[seen[control::LIMIT]], &[0; 8])?;
                }
                Some(State::NoMemory) => return Ok(Err(self.refused(NO_MEMORY))),
                Some(State::Debugging) => return Ok(Err(self.refused(DEBUGGING))),
                None => return Ok(Err(self.refused("its state is of another version"))),
            }
        }
        Ok(Ok(()))
    }

    fn refused(&self, why: &'static str) -> Error {
        Error::NotProfiled { pid: self.target.pid, program: self.target.program.clone(), why }
    }

    /// Takes what there is.
    ///
    /// # Errors
    /// If the process has ended, or is another program now; if it refuses to sample.
    pub fn take(&mut self) -> Result<Taken, Error> {
        self.look().map_err(|why| self.target.error(why))?
    }

    fn look(&mut self) -> Result<Result<Taken, Error>, Unreadable> {
        let pid = self.target.pid;
        self.put(control::ATTENDED, now_ns())?;
        let seen = words(&self.target, self.control, control::WORDS)?;
        match State::of(seen[control::STATE]) {
            Some(State::NoMemory) => return Ok(Err(self.refused(NO_MEMORY))),
            Some(State::Debugging) => return Ok(Err(self.refused(DEBUGGING))),
            Some(State::Off) if self.generation.is_none() => return Ok(Ok(Taken::default())),
            _ => {}
        }
        let memory = seen[control::MEMORY];
        if memory == 0 || memory > u64::MAX / 2 - BYTES as u64 {
            return Ok(Ok(Taken::default()));
        }
        let heads = words(&self.target, memory, head::WORDS)?;
        match self.generation {
            None => {
                self.generation = Some(seen[control::GENERATION]);
                self.next = [heads[head::SAMPLES_TAKEN], heads[head::FREES_TAKEN]];
                self.before = self.next[0];
            }
            Some(ours) if ours != seen[control::GENERATION] => {
                self.is_ours = false;
                return Ok(Err(Error::Profiled { pid }));
            }
            Some(_) => {}
        }
        // The frees first: the samples of those that are read here are there already.
        let frees = self.frees(memory, heads[head::FREES])?;
        let heads = words(&self.target, memory, head::WORDS)?;
        let samples = self.samples(memory, heads[head::SAMPLES])?;
        let taken = [(head::SAMPLES_TAKEN, self.next[0]), (head::FREES_TAKEN, self.next[1])];
        for (word, next) in taken {
            let at = memory + word as u64 * 8;
            self.target.memory.write(&[at], &next.to_le_bytes())?;
        }
        Ok(Ok(Taken {
            samples,
            frees,
            lost_samples: heads[head::SAMPLES_LOST],
            lost_frees: heads[head::FREES_LOST],
            ends: seen[control::ENDING] == 1,
        }))
    }

    /// How many records of a ring wait.
    fn waiting(&self, ring: usize, claimed: u64, room: usize) -> Result<usize, Unreadable> {
        let waiting = claimed.wrapping_sub(self.next[ring]);
        let fits = waiting <= room as u64;
        let damaged = || format!("a ring of {room} records has {waiting}");
        if fits { Ok(waiting as usize) } else { Err(Unreadable::Damaged(damaged())) }
    }

    fn samples(&mut self, memory: u64, claimed: u64) -> Result<Vec<Sample>, Unreadable> {
        let mut samples = Vec::new();
        let waiting = self.waiting(0, claimed, SAMPLES)?;
        let end = self.next[0].wrapping_add(waiting as u64);
        while self.next[0] != end {
            let batch = (end - self.next[0]).min(BATCH as u64);
            let part = |position: u64| MemoryPart {
                address: memory + (SAMPLES_AT + position as usize % SAMPLES * SAMPLE_BYTES) as u64,
                bytes: sample::STACK * 8,
            };
            let parts: Vec<_> = (self.next[0]..self.next[0] + batch).map(part).collect();
            let bytes = memory::read(&self.target.memory, &parts)?;
            let mut whole = Vec::new();
            for (record, part) in bytes.chunks(sample::STACK * 8).zip(&parts) {
                let record: Vec<u64> = memory::words(record).collect();
                if record[sample::SEQUENCE] != self.next[0] + 1 {
                    if !self.is_stalled() {
                        break;
                    }
                } else if record[sample::BYTES] != 0 {
                    let stack = (record[sample::STACK_BYTES] as usize).min(STACK_BYTES);
                    let address = part.address + sample::STACK as u64 * 8;
                    whole.push((record, MemoryPart { address, bytes: stack }));
                }
                self.stalled = None;
                self.next[0] += 1;
            }
            let parts: Vec<_> = whole.iter().map(|(_, stack)| *stack).collect();
            let bytes = memory::read(&self.target.memory, &parts)?;
            let mut rest = bytes.as_slice();
            for (record, stack) in whole {
                let (stack, others) = rest.split_at(stack.bytes);
                rest = others;
                samples.push(of_record(&record, stack));
            }
            if self.stalled.is_some() {
                break;
            }
        }
        Ok(samples)
    }

    /// True if the next record has waited for its words for too long.
    fn is_stalled(&mut self) -> bool {
        self.stalled.get_or_insert_with(Instant::now).elapsed() > STALLED
    }

    fn frees(&mut self, memory: u64, claimed: u64) -> Result<Vec<SampleFree>, Unreadable> {
        let waiting = self.waiting(1, claimed, FREES)?;
        let part = |position: u64| MemoryPart {
            address: memory + (FREES_AT + position as usize % FREES * freed::WORDS * 8) as u64,
            bytes: freed::WORDS * 8,
        };
        let parts: Vec<_> = (self.next[1]..self.next[1] + waiting as u64).map(part).collect();
        let bytes = memory::read(&self.target.memory, &parts)?;
        let mut frees = Vec::new();
        for record in bytes.chunks(freed::WORDS * 8) {
            let record: Vec<u64> = memory::words(record).collect();
            if record[freed::SEQUENCE] != self.next[1] + 1 {
                break;
            }
            let (sequence, time_ns) = (record[freed::SAMPLE], record[freed::TIME]);
            // Else an earlier profile sampled the block.
            if sequence > self.before {
                frees.push(SampleFree { sequence, time_ns });
            }
            self.next[1] += 1;
        }
        Ok(frees)
    }

    /// Lets a process go that [ends](Taken::ends).
    pub fn let_end(&self) {
        let _ = self.put(control::ENDING, 0);
    }

    /// Switches the sampling off, waits until it is off or the process proves idle, and takes what
    /// is left.
    ///
    /// # Errors
    /// As [`Session::take`].
    pub fn end(&mut self) -> Result<Taken, Error> {
        let off = |session: &Session| -> Result<(), Fault> {
            session.put(control::RATE, 0)?;
            let end = Instant::now() + ANSWER;
            while Instant::now() < end
                && words(&session.target, session.control, control::WORDS)?[control::STATE] != 0
            {
                sleep(Duration::from_millis(1));
            }
            Ok(())
        };
        off(self).map_err(|why| self.target.error(why.into()))?;
        self.take()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = self.put(control::RATE, 0);
            self.let_end();
        }
    }
}

const NO_MEMORY: &str = "the system refused it the memory for samples";
const DEBUGGING: &str = "its caches have debugging, which keeps the stack of every object; \
    `slabyard show PID CACHE` shows these";

fn of_record(record: &[u64], stack: &[u8]) -> Sample {
    Sample {
        sequence: record[sample::SEQUENCE],
        bytes: record[sample::BYTES],
        thread: record[sample::THREAD] as u32,
        time_ns: record[sample::TIME],
        rate: record[sample::RATE],
        registers: [
            record[sample::INSTRUCTION],
            record[sample::STACK_POINTER],
            record[sample::FRAME_POINTER],
        ],
        stack: stack.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_of(bytes: u64, rate: u64) -> Sample {
        Sample {
            sequence: 1,
            bytes,
            thread: 1,
            time_ns: 1,
            rate,
            registers: [0; 3],
            stack: Vec::new(),
        }
    }

    #[test]
    fn a_small_sample_stands_for_many_and_a_large_one_for_itself() {
        let near = |have: f64, want: f64| (have / want - 1.0).abs() < 1e-3;
        assert!(near(sample_of(64, 64 << 20).weight(), f64::from(1 << 20)));
        assert!(near(sample_of(1 << 20, 1 << 20).weight(), 1.582));
        assert!(near(sample_of(1 << 30, 1 << 20).weight(), 1.0));
        assert!(near(sample_of(u64::MAX, 0).weight(), 1.0));
    }
}
