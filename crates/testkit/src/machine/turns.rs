//! The scheduler's data: whose turn it is, each virtual thread's words, and all threads' states.
//!
//! Neighbour: [`super::schedule`] passes turns on.

use super::config::{Config, Tally};
use slabyard_platform::ThreadWords;
use slabyard_platform::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::any::Any;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The implicit thread.
pub(super) const IMPLICIT: usize = 0;

/// What a store buffer holds: other threads do not see it yet.
pub(super) struct PendingStore {
    /// Address of the word.
    pub(super) word: usize,
    pub(super) value: u64,
}

/// A thread of the machine: its words, and the store that it is about to make.
pub(super) struct VirtualThread {
    pub(super) own: ThreadWords,
    pub(super) cpu: AtomicUsize,
    pub(super) registered: AtomicU32,
    pub(super) tally: Mutex<Tally>,
    pub(super) announced: Mutex<Option<PendingStore>>,
}

impl VirtualThread {
    pub(super) fn new(late: bool) -> Self {
        VirtualThread {
            own: ThreadWords::default(),
            cpu: AtomicUsize::new(0),
            registered: AtomicU32::new(u32::from(!late)),
            tally: Mutex::default(),
            announced: Mutex::new(None),
        }
    }

    pub(super) fn cpu(&self) -> usize {
        self.cpu.load(Ordering::Relaxed)
    }

    pub(super) fn register(&self) {
        self.registered.store(1, Ordering::Relaxed);
    }

    pub(super) fn is_registered(&self) -> bool {
        self.registered.load(Ordering::Relaxed) == 1
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// Sleeps on the word at this address.
    Asleep(usize),
    /// It no longer exists for those that continue: the child of a fork.
    Gone,
    Done,
}

pub(super) struct Turns {
    pub(super) random: u64,
    /// Thread whose turn it is.
    pub(super) current: usize,
    /// State of each virtual thread; empty outside of a run. Thread `i + 1` is
    /// at `i`.
    pub(super) states: Vec<State>,
    /// Thread that was on each CPU last.
    pub(super) on_cpu: Vec<usize>,
    pub(super) steps: u64,
    pub(super) trace: u64,
    pub(super) panic: Option<Box<dyn Any + Send>>,
}

pub(super) struct Schedule {
    pub(super) turns: Mutex<Turns>,
    /// One for each thread.
    pub(super) resumed: Vec<Condvar>,
    pub(super) preemption: u32,
    pub(super) max_steps: u64,
    pub(super) late: bool,
    /// 1 inside of a run.
    pub(super) running: AtomicU32,
    pub(super) moves: AtomicU64,
}

impl Schedule {
    pub(super) fn new(config: &Config) -> Self {
        Schedule {
            turns: Mutex::new(Turns {
                random: config.seed,
                current: IMPLICIT,
                states: Vec::new(),
                on_cpu: std::vec![IMPLICIT; config.cpus],
                steps: 0,
                trace: 0,
                panic: None,
            }),
            resumed: (0..=config.max_threads).map(|_| Condvar::new()).collect(),
            preemption: config.preemption,
            max_steps: config.max_steps,
            late: config.late_rows || !config.can_stop,
            running: AtomicU32::new(0),
            moves: AtomicU64::new(0),
        }
    }

    pub(super) fn turns(&self) -> MutexGuard<'_, Turns> {
        // Only reports of deadlocks panic with it held, and they end the run.
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed) == 1
    }
}

impl Turns {
    /// Next number of the generator (splitmix64, public domain by S. Vigna).
    pub(super) fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(super) fn note(&mut self, what: u64, thread: usize, cpu: usize) {
        let event = self.steps << 24 ^ what << 16 ^ (thread as u64) << 8 ^ cpu as u64;
        self.trace = (self.trace ^ event).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
    }

    pub(super) fn is_over_for(&self, me: usize) -> bool {
        self.panic.is_some() || self.states[me - 1] == State::Gone
    }

    /// A thread that can continue. After a panic sleepers can: they are unwound.
    pub(super) fn choose(&mut self) -> Option<usize> {
        let ended = self.panic.is_some();
        // Those that are gone are unwound last.
        let over = self.states.iter().all(|s| matches!(s, State::Gone | State::Done));
        let can = |s: &State| *s == State::Ready || (ended || over) && *s != State::Done;
        let nr = self.states.iter().filter(|s| can(s)).count();
        if nr == 0 {
            return None;
        }
        let nth = self.below(nr);
        self.states.iter().enumerate().filter(|(_, s)| can(s)).nth(nth).map(|(i, _)| i + 1)
    }
}
