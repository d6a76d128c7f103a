//! The modelled machine: N virtual CPUs, any page size, memory to measure.
//!
//! Neighbours: `memory` (reservations, commits, mappings, all checked),
//! `schedule` (virtual threads that take turns by a seeded choice), `sequence`
//! (pop, push and exchange, cut into steps), `readers` (stores of readers that reach the
//! other threads late).
//!
//! The addresses of objects have nothing behind them; tables are real memory.
//! A sequence is modelled as load-linked and store-conditional on a CPU's
//! token: it reads the CPU's generation, loads with steps in between, and
//! commits only if the thread is still on that CPU and the generation is the
//! same. Preemption by another thread on that CPU, a signal, migration and
//! [`Platform::fence`] end the sequence, and it begins again.
//!
//! Invariants:
//! * inside [`Machine::run`] one virtual thread runs at a time, and another one
//!   may only run after a step, a wait or an end;
//! * outside of it there is one implicit thread, on the CPU that
//!   [`Machine::set_cpu`] chose, that nothing preempts;
//! * the same seed and the same bodies make the same schedule
//!   ([`Machine::trace`]).

mod memory;
mod readers;
mod schedule;
mod sequence;
#[cfg(test)]
mod tests;

pub use schedule::Body;

use super::birth::{CHILD, WHOLE};
use super::reader::Place;
use super::stack::{ROW_STRIDE, Rows, Slot, Stack, Stopped};
use super::{Event, FastPath, GRANULE, Park, Platform, Stretch, Use};
use crate::sync::lock::may_call;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use memory::Memory;
use schedule::{Schedule, Words};
use sequence::Takes;
use std::boxed::Box;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes for the elements of stacks.
const ELEMENTS: usize = 16 << 20;
/// Counters that there is room for.
const COUNTERS: usize = 64;

/// What the machine is made of.
#[derive(Clone, Debug)]
pub struct Config {
    /// Virtual CPUs.
    pub cpus: usize,
    /// Bytes of a page: a power of two, at least [`GRANULE`].
    pub page_bytes: usize,
    /// Memory nodes: a power of two, at most [`Platform::MOST_NODES`]; CPUs take turns.
    pub nodes: usize,
    /// Bytes that can be committed and mapped at once.
    pub memory_bytes: usize,
    /// Seed of every choice.
    pub seed: u64,
    /// How often in 1000 steps the running thread is preempted, moved or
    /// interrupted.
    pub preemption: u32,
    /// The request of this number (from 0) for memory is refused: the calls of
    /// `commit`, `map` and `remap` that grows.
    pub refuse_commit: Option<u64>,
    /// False: each thread has a private row, and no other thread's stacks can be stopped.
    pub can_stop: bool,
    /// So many fences of readers succeed; the others are refused.
    pub reader_fences: u64,
    /// False: the end of a thread cannot be found out, so that readers have no places.
    pub finds_ends: bool,
    /// True: a thread has no row before its first slow path. Private rows are
    /// always late.
    pub late_rows: bool,
    /// Virtual threads that [`Machine::run`] takes at most.
    pub max_threads: usize,
    /// Steps after which a run is given up as endless.
    pub max_steps: u64,
    /// A planted bug, for tests of the checkers.
    pub broken: Broken,
}

/// A bug planted in the machine, which a checker must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// No bug.
    None,
    /// Sequences commit without a look at the CPU's token.
    CommitWithoutCheck,
    /// A fence ends no sequence.
    FenceDoesNothing,
    /// A fence of readers delivers no store.
    ReaderFenceDoesNothing,
}

/// What one thread asked of a machine so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Objects put into one slab or taken out of it: how often.
    pub slab_operations: u64,
    /// Locks taken.
    pub locks: u64,
    /// Fences.
    pub fences: u64,
    /// Calls of `give_back`.
    pub give_backs: u64,
    /// Bytes of these calls.
    pub give_back_bytes: u64,
    /// Calls of `touch_ahead`.
    pub touches: u64,
    /// Bytes of these calls.
    pub touched_bytes: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            cpus: 2,
            page_bytes: GRANULE,
            nodes: 1,
            memory_bytes: usize::MAX,
            seed: 0,
            preemption: 100,
            refuse_commit: None,
            can_stop: true,
            reader_fences: u64::MAX,
            finds_ends: true,
            late_rows: false,
            max_threads: 15,
            max_steps: 100_000_000,
            broken: Broken::None,
        }
    }
}

/// A modelled machine.
pub struct Machine {
    config: Config,
    rows: Rows,
    /// Raised when a sequence on this CPU must not commit any more.
    generations: Box<[AtomicU64]>,
    /// Words of each thread; thread 0 is the implicit one.
    threads: Box<[Words]>,
    schedule: Schedule,
    memory: Mutex<Memory>,
    now_ms: AtomicU64,
    /// How many more fences succeed.
    fences_left: AtomicU64,
    reader_fences_left: AtomicU64,
    fence_was_refused: AtomicBool,
    counted: [AtomicU64; COUNTERS],
    birth: AtomicU32,
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
        let nr_threads = config.max_threads + 1;
        let late = config.late_rows || !config.can_stop;
        let nr_rows = if config.can_stop { config.cpus } else { nr_threads };
        let mut memory = Memory::new(&config);
        // The header; then the rows; then the elements.
        let page = config.page_bytes;
        let row_bytes = (nr_rows * ROW_STRIDE).next_multiple_of(page);
        let elements = ELEMENTS.next_multiple_of(page);
        let header = memory.table(page + row_bytes + elements, page);
        let base = header + page;
        let rows = Rows::new();
        // SAFETY: a zeroed table that stays until the machine is dropped.
        unsafe { rows.set(header, base, nr_rows, (base + row_bytes, elements)) };
        rows.set_row_bytes(super::stack::FIRST_ROW_BYTES.next_multiple_of(page).min(ROW_STRIDE));
        Machine {
            rows,
            generations: (0..config.cpus).map(|_| AtomicU64::new(0)).collect(),
            threads: (0..nr_threads).map(|_| Words::new(late)).collect(),
            schedule: Schedule::new(&config),
            memory: Mutex::new(memory),
            now_ms: AtomicU64::new(0),
            fences_left: AtomicU64::new(u64::MAX),
            reader_fences_left: AtomicU64::new(config.reader_fences),
            fence_was_refused: AtomicBool::new(false),
            counted: [const { AtomicU64::new(0) }; COUNTERS],
            birth: AtomicU32::new(WHOLE),
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

    /// Bytes of committed pages in arenas and tables, whether their contents
    /// were given back since or not.
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

    /// What the calling thread asked for so far.
    pub fn tally(&self) -> Tally {
        *self.here().tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What policy counted so far, by the number of the counter.
    pub fn counted(&self) -> [u64; COUNTERS] {
        core::array::from_fn(|counter| self.counted[counter].load(Ordering::Relaxed))
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

    /// Refuses the `n`-th request for memory from now on (from 0), in place of
    /// what `refuse_commit` said; `None` refuses none.
    pub fn refuse(&self, n: Option<u64>) {
        self.memory().refuse(n);
    }

    /// Locks the pages in a range, as `mlock` does, or unlocks them: `give_back` refuses a
    /// stretch that holds a locked page.
    pub fn lock_pages(&self, address: usize, bytes: usize, locked: bool) {
        self.memory().lock_pages(address, bytes, locked);
    }

    /// Lets so many more fences succeed and refuses the rest, as a filter does that a program
    /// installs after its start.
    pub fn grant_fences(&self, n: u64) {
        self.fences_left.store(n, Ordering::Relaxed);
        self.fence_was_refused.store(false, Ordering::Relaxed);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // A panic of a checker leaves the numbers as they were.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn here(&self) -> &Words {
        &self.threads[self.me()]
    }
}

impl Park for Machine {
    fn wait(&self, word: &AtomicU32, value: u32) {
        self.sleep(word, value);
    }

    fn wait_at_most(&self, _: &AtomicU32, _: u32, ms: u64) {
        // As if no thread woke it.
        self.take_step();
        self.advance(ms);
    }

    fn wake(&self, word: &AtomicU32) {
        self.wake_one(word);
    }

    fn held(&self) -> &AtomicU32 {
        &self.here().held
    }

    fn step(&self) {
        self.take_step();
    }

    fn locked(&self) {
        self.note(|tally| tally.locks += 1);
    }

    fn is_orphan(&self) -> bool {
        self.birth.load(Ordering::Relaxed) == CHILD
    }
}

impl Platform for Machine {
    #[inline(always)]
    fn has_page_lists(&self) -> bool {
        true
    }

    const MOST_NODES: usize = 4;

    fn nodes(&self) -> usize {
        self.config.nodes
    }

    fn node_of_row(&self, row: usize) -> usize {
        row % self.config.nodes
    }

    fn page_bytes(&self) -> usize {
        self.config.page_bytes
    }

    fn reserve(&self, bytes: usize, align: usize, what: Use) -> Option<usize> {
        self.memory().reserve(bytes, align, what)
    }

    fn commit(&self, address: usize, bytes: usize) -> bool {
        self.called();
        self.memory().commit(address, bytes)
    }

    fn commit_rows(&self, bytes: usize) -> bool {
        self.called();
        let (rows, have) = (&self.rows, self.rows.row_bytes());
        let more = bytes.min(ROW_STRIDE).saturating_sub(have);
        let at = |row| rows.base() + row * ROW_STRIDE + have;
        let done = more == 0 || self.memory().commit_all((0..rows.len()).map(at), more);
        if done {
            rows.set_row_bytes(have + more);
        }
        done
    }

    fn touch_ahead(&self, address: usize, bytes: usize) {
        self.called();
        self.note(|tally| {
            tally.touches += 1;
            tally.touched_bytes += bytes as u64;
        });
        self.memory().touch_ahead(address, bytes);
    }

    fn give_back(&self, stretches: &mut [Stretch]) {
        self.called();
        self.note(|tally| {
            tally.give_backs += 1;
            tally.give_back_bytes += stretches.iter().map(|s| s.bytes as u64).sum::<u64>();
        });
        for stretch in stretches {
            if !self.memory().give_back(stretch.address, stretch.bytes) {
                *stretch = Stretch::NONE;
            }
        }
    }

    fn map(&self, bytes: usize, align: usize) -> Option<usize> {
        self.called();
        self.memory().map(bytes, align)
    }

    fn unmap(&self, address: usize, bytes: usize) {
        self.called();
        self.memory().unmap(address, bytes);
    }

    fn remap(&self, address: usize, old_bytes: usize, new_bytes: usize) -> Option<usize> {
        self.called();
        self.memory().remap(address, old_bytes, new_bytes)
    }

    fn move_out(&self, address: usize, bytes: usize, new_bytes: usize) -> Option<usize> {
        self.called();
        self.memory().move_out(address, bytes, new_bytes)
    }

    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn rows(&self) -> &Rows {
        &self.rows
    }

    fn enter(&self) {
        self.here().register();
        self.take_step();
    }

    fn has_private_rows(&self) -> bool {
        !self.config.can_stop
    }

    fn rows_used(&self) -> usize {
        let rows = self.rows().len();
        if self.config.can_stop {
            return rows;
        }
        self.threads
            .iter()
            .take(rows)
            .rposition(|thread| thread.had_row())
            .map_or(0, |last| last + 1)
    }

    fn can_stop(&self) -> bool {
        self.config.can_stop && !self.fence_was_refused.load(Ordering::Relaxed)
    }

    fn fence(&self) -> bool {
        assert!(self.config.can_stop, "a fence on a machine that cannot stop");
        self.called();
        self.note(|tally| tally.fences += 1);
        let succeeds = self
            .fences_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok();
        if !succeeds {
            self.fence_was_refused.store(true, Ordering::Relaxed);
        } else if self.config.broken != Broken::FenceDoesNothing {
            for generation in &self.generations {
                generation.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.take_step();
        succeeds
    }

    fn row_hint(&self) -> Option<usize> {
        self.row()
    }

    fn pop(&self, slot: Slot) -> Option<usize> {
        self.pop_in_steps(slot)
    }

    fn push(&self, slot: Slot, object: usize) -> bool {
        self.push_in_steps(|| slot, object)
    }

    fn push_inlined(&self, words: &FastPath, object: usize) -> bool {
        self.count_down() && self.push_in_steps(|| words.slot(), object)
    }

    fn push_if(&self, slot: Slot, object: usize) -> bool {
        self.push_if_in_steps(slot, object)
    }

    fn pop_many(&self, slot: Slot, out: &mut [usize]) -> usize {
        self.pop_many_in_steps(slot, out)
    }

    fn push_many(&self, slot: Slot, objects: &[usize]) -> usize {
        self.push_many_in_steps(slot, objects, Takes::Each)
    }

    fn push_many_if(&self, slot: Slot, objects: &[usize]) -> usize {
        self.push_many_in_steps(slot, objects, Takes::Tagged)
    }

    fn exchange(&self, slot: Slot, new: Stack) -> Result<Stack, Stopped> {
        self.exchange_in_steps(slot, new)
    }

    fn is_unwound(&self) -> bool {
        std::thread::panicking()
    }

    fn birth(&self) -> &AtomicU32 {
        &self.birth
    }

    fn depth(&self) -> &AtomicU32 {
        &self.here().depth
    }

    fn reader(&self) -> &[AtomicUsize; 2] {
        &self.here().reader
    }

    fn on_thread_end(&self, _: &Place) -> bool {
        self.config.finds_ends
    }

    fn announce(&self, word: &AtomicU64, value: u64) {
        self.announce_later(word, value);
    }

    fn announced(&self, word: &AtomicU64) -> u64 {
        self.own_announced(word)
    }

    fn fence_reader(&self) {
        self.take_step();
        self.deliver(self.me());
    }

    fn fence_readers(&self) -> bool {
        self.called();
        self.fence_all_readers()
    }

    fn slab_operation(&self) {
        self.note(|tally| tally.slab_operations += 1);
    }

    fn count(&self, _slot: Slot, event: Event) {
        if let Event::Counted(counter, n) = event {
            self.counted[counter].fetch_add(n.into(), Ordering::Relaxed);
        }
    }

    unsafe fn read_word(&self, address: usize) -> usize {
        self.memory().read_word(address)
    }

    unsafe fn write_word(&self, address: usize, word: usize) {
        self.memory().write_word(address, word);
    }

    unsafe fn fill(&self, address: usize, bytes: usize, value: u8) {
        self.memory().fill(address, bytes, value);
    }

    unsafe fn first_other(&self, address: usize, bytes: usize, value: u8) -> Option<(usize, u8)> {
        self.memory().first_other(address, bytes, value)
    }

    unsafe fn word_in_slab(&self, address: usize) -> &AtomicU64 {
        // Another thread may run before each access.
        self.take_step();
        let word = self.memory().shared_word(address);
        // SAFETY: it is boxed, and stays until the machine is dropped.
        unsafe { &*word }
    }
}
