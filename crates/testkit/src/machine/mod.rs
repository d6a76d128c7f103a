//! The modelled machine: N virtual CPUs, any page size, and memory whose use is measured.
//!
//! Neighbours: `platform` (what yards call), `memory` (reservations, commits, mappings, all
//! checked), `huge` (which pages are resident), `schedule` (virtual threads that take turns by a seeded choice), `sequence` (pop, push
//! and exchange, split into steps), `readers` (stores of RCU readers, which other threads see
//! late).
//!
//! Objects have addresses but no memory behind them; tables are in real memory. A restartable
//! sequence (rseq) is modelled as load-linked and store-conditional on a CPU's token. The sequence
//! reads the CPU's generation and makes its loads, with possible preemptions (steps) between, and
//! commits only if the thread is still on that CPU and the generation is unchanged. Preemption by
//! another thread on that CPU, a signal, migration and
//! [`PerCpu::fence`](slabyard_platform::PerCpu::fence) abort the sequence, and it restarts.
//!
//! Invariants:
//! * inside [`Machine::run`] one virtual thread runs at a time, and another one may run only after
//!   a step, a wait or the thread's end;
//! * outside of it there is one implicit thread, on the CPU that [`Machine::set_cpu`] chose, which
//!   nothing preempts;
//! * the same seed and the same thread bodies give the same schedule ([`Machine::trace`]).

mod config;
mod huge;
mod memory;
mod platform;
mod readers;
mod schedule;
mod sequence;
#[cfg(test)]
mod tests;
mod turns;

pub use config::{Broken, Config, Tally};
pub use schedule::Body;

use huge::HugePages;
use memory::ModelledMemory;
use slabyard_platform::birth::WHOLE;
use slabyard_platform::stack::{ROW_STRIDE, Rows};
use slabyard_platform::sync::lock::may_call;
use slabyard_platform::sync::{
    AtomicBool, AtomicU32, AtomicU64, Ordering, ask_whether_unwinding_by,
};
use slabyard_platform::{GRANULE, Memory, Planted};
use std::sync::{Mutex, MutexGuard, PoisonError};
use turns::{Schedule, VirtualThread};

/// Bytes for the elements of stacks, at least so many and more of many rows.
const ELEMENTS: usize = 16 << 20;
const ELEMENTS_PER_ROW: usize = 1 << 20;
/// Counters that there is room for.
const COUNTERS: usize = 64;

/// A modelled machine.
pub struct Machine {
    config: Config,
    rows: Rows,
    /// Raised when a sequence on this CPU must not commit any more.
    generations: Box<[AtomicU64]>,
    /// Words of each thread; thread 0 is the implicit one.
    threads: Box<[VirtualThread]>,
    schedule: Schedule,
    memory: Mutex<ModelledMemory>,
    now_ms: AtomicU64,
    /// How many more fences succeed.
    fences_left: AtomicU64,
    reader_fences_left: AtomicU64,
    fence_was_refused: AtomicBool,
    counted: [AtomicU64; COUNTERS],
    birth: AtomicU32,
    planted: Mutex<Option<Planted>>,
}

impl Machine {
    /// A machine with no memory in use, its implicit thread on CPU 0.
    ///
    /// # Panics
    /// If the page size is no power of two or too small, or there is no CPU.
    #[must_use]
    pub fn new(config: Config) -> Self {
        assert!(config.page_bytes.is_power_of_two() && config.page_bytes >= GRANULE);
        assert!(config.cpus > 0, "a machine without a CPU");
        assert!(config.nodes.is_power_of_two() && config.nodes <= Self::MOST_NODES);
        ask_whether_unwinding_by(std::thread::panicking);
        let nr_threads = config.max_threads + 1;
        let late = config.late_rows || !config.can_stop;
        let nr_rows = if config.can_stop { config.cpus } else { nr_threads };
        let mut memory = ModelledMemory::new(&config);
        // The header; then the rows; then the elements.
        let page = config.page_bytes;
        let row_bytes = (nr_rows * ROW_STRIDE).next_multiple_of(page);
        let elements = ELEMENTS.max(nr_rows * ELEMENTS_PER_ROW);
        let elements = elements.next_multiple_of(page);
        let header = memory.table(page + row_bytes + elements, page);
        let base = header + page;
        let rows = Rows::new();
        // SAFETY: a zeroed table that stays until the machine is dropped.
        unsafe { rows.set(header, base, nr_rows, (base + row_bytes, elements)) };
        // SAFETY: no sequence of a CPU runs on them.
        unsafe { rows.set_owner(0, !config.can_stop) };
        rows.set_row_bytes(
            slabyard_platform::stack::FIRST_ROW_BYTES.next_multiple_of(page).min(ROW_STRIDE),
        );
        Machine {
            rows,
            generations: (0..config.cpus).map(|_| AtomicU64::new(0)).collect(),
            threads: (0..nr_threads).map(|_| VirtualThread::new(late)).collect(),
            schedule: Schedule::new(&config),
            memory: Mutex::new(memory),
            now_ms: AtomicU64::new(0),
            fences_left: AtomicU64::new(u64::MAX),
            reader_fences_left: AtomicU64::new(config.reader_fences),
            fence_was_refused: AtomicBool::new(false),
            counted: [const { AtomicU64::new(0) }; COUNTERS],
            birth: AtomicU32::new(WHOLE),
            planted: Mutex::new(None),
            config,
        }
    }

    /// What the machine was made of.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Lets time pass. No store stays on its way so long.
    pub fn advance(&self, ms: u64) {
        self.deliver_all();
        self.now_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Bytes of committed pages in arenas and tables, whether their contents were purged since or
    /// not.
    pub fn committed_bytes(&self) -> usize {
        self.memory().committed_bytes()
    }

    /// Bytes of all `give_back` calls so far.
    pub fn given_back_bytes(&self) -> u64 {
        self.memory().given_back_bytes()
    }

    /// Bytes in mappings of their own.
    pub fn mapped_bytes(&self) -> usize {
        self.memory().mapped_bytes()
    }

    /// Someone writes to memory that is committed: with [`Config::huge_pages`], pages become
    /// resident.
    pub fn touch(&self, address: usize, bytes: usize) {
        let touch = |huge: &mut HugePages, is_whole: &dyn Fn(usize) -> bool| {
            huge.touch(address, bytes, is_whole);
        };
        self.memory().with_huge_pages(touch);
    }

    /// Makes huge pages of all that is resident in part and not advised against them, as
    /// `khugepaged` does in the course of time.
    pub fn collapse(&self) {
        self.memory().with_huge_pages(|huge, is_whole| huge.collapse(is_whole));
    }

    /// What the calling thread has requested so far.
    pub fn tally(&self) -> Tally {
        *self.here().tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What policy counted so far, by the number of the counter.
    pub fn counted(&self) -> [u64; COUNTERS] {
        std::array::from_fn(|counter| self.counted[counter].load(Ordering::Relaxed))
    }

    fn note(&self, f: impl FnOnce(&mut Tally)) {
        // Its thread alone takes this lock: it never waits.
        f(&mut self.here().tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Before each call that a system would serve.
    fn called(&self) {
        may_call(self);
        self.take_step();
    }

    /// Requests for memory so far: what `refuse_commit` counts.
    pub fn requests(&self) -> u64 {
        self.memory().requests()
    }

    /// Refuses only the `n`-th request for memory after this (counted from 0), in place of what
    /// `refuse_commit` said; `None` refuses none.
    pub fn refuse(&self, n: Option<u64>) {
        self.memory().refuse(n);
    }

    /// Locks the pages in a range, as `mlock` does, or unlocks them: `give_back` refuses a
    /// stretch that holds a locked page.
    pub fn lock_pages(&self, address: usize, bytes: usize, locked: bool) {
        self.memory().lock_pages(address, bytes, locked);
    }

    /// Lets this many more fences succeed and refuses the rest, like a filter that a program
    /// installs after its start.
    pub fn grant_fences(&self, n: u64) {
        self.fences_left.store(n, Ordering::Relaxed);
        self.fence_was_refused.store(false, Ordering::Relaxed);
    }

    /// Plants a bug in the yards on this machine, in place of the one that was planted before.
    pub fn plant(&self, bug: Planted) {
        *self.planted.lock().unwrap_or_else(PoisonError::into_inner) = Some(bug);
    }

    fn memory(&self) -> MutexGuard<'_, ModelledMemory> {
        // A panic of a checker leaves the numbers as they were.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn here(&self) -> &VirtualThread {
        &self.threads[self.me()]
    }
}
