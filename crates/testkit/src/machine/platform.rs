//! The machine as a platform: what a yard calls.
//!
//! Neighbours: [`super::sequence`] makes pops and pushes stepwise, [`super::schedule`] handles
//! turns, sleeps and wakes, [`super::readers`] delays stores, [`super::memory`] provides all
//! memory.

use super::Machine;
use super::config::Broken;
use slabyard_platform::birth::CHILD;
use slabyard_platform::reader::ReaderSlot;
use slabyard_platform::stack::{ROW_STRIDE, Rows, Slot, Stack, Stopped};
use slabyard_platform::sync::{AtomicU32, AtomicU64, Ordering};
use slabyard_platform::{
    Advice, Counts, Event, FastPath, Memory, ObjectMemory, Park, PerCpu, Planted, Platform,
    Stretch, Takes, ThreadWords, Threads, Time, Use, count_down,
};
use std::sync::PoisonError;

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
        &self.here().own.held
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

impl Memory for Machine {
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

    fn advise(&self, address: usize, bytes: usize, advice: Advice) {
        let of_huge = match advice {
            Advice::HugePages => Some(true),
            Advice::SmallPages => Some(false),
            _ => None,
        };
        if let Some(for_it) = of_huge {
            self.memory().with_huge_pages(|huge, _| huge.advise(address, bytes, for_it));
        }
        // Of other advice nothing changes: all is there at once.
        if advice == Advice::WrittenSoon {
            self.called();
            self.note(|tally| {
                tally.touches += 1;
                tally.touched_bytes += bytes as u64;
            });
            self.memory().check_committed(address, bytes);
        }
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

    fn has_huge_pages(&self) -> bool {
        self.config.huge_pages
    }

    fn resident(&self, address: usize, bytes: usize) -> usize {
        let count = self.memory().with_huge_pages(|huge, _| huge.resident_in(address, bytes));
        count.unwrap_or(0)
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
}

impl ObjectMemory for Machine {
    unsafe fn word(&self, address: usize) -> &AtomicU64 {
        // Another thread may run before each access.
        self.take_step();
        let word = self.memory().shared_word(address);
        // SAFETY: it is boxed, and stays until the machine is dropped.
        unsafe { &*word }
    }

    unsafe fn fill(&self, address: usize, bytes: usize, value: u8) {
        self.memory().fill(address, bytes, value);
    }

    unsafe fn first_other(&self, address: usize, bytes: usize, value: u8) -> Option<(usize, u8)> {
        self.memory().first_other(address, bytes, value)
    }
}

impl PerCpu for Machine {
    fn rows(&self) -> &Rows {
        &self.rows
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

    fn enter(&self) {
        self.here().register();
        self.take_step();
    }

    fn row_hint(&self) -> Option<usize> {
        self.row()
    }

    fn can_stop(&self) -> bool {
        self.config.can_stop && !self.fence_was_refused.load(Ordering::Relaxed)
    }

    fn fence(&self) -> bool {
        self.fence_cpus(0..self.config.cpus)
    }

    fn fence_rows(&self, rows: impl Iterator<Item = usize> + Clone) -> bool {
        self.fence_cpus(rows)
    }

    fn pop(&self, slot: Slot) -> Option<usize> {
        self.pop_in_steps(slot)
    }

    fn push(&self, slot: Slot, object: usize, takes: Takes) -> bool {
        match takes {
            Takes::Each => self.push_in_steps(|| slot, object),
            Takes::Tagged => self.push_if_in_steps(slot, object),
        }
    }

    fn push_inlined(&self, words: &FastPath, object: usize) -> bool {
        count_down(self, 1) && self.push_in_steps(|| words.slot(), object)
    }

    fn pop_many(&self, slot: Slot, out: &mut [usize]) -> usize {
        self.pop_many_in_steps(slot, out)
    }

    fn push_many(&self, slot: Slot, objects: &[usize], takes: Takes) -> usize {
        self.push_many_in_steps(slot, objects, takes)
    }

    fn exchange(&self, slot: Slot, new: Stack) -> Result<Stack, Stopped> {
        self.exchange_in_steps(slot, new)
    }
}

impl Machine {
    fn fence_cpus(&self, cpus: impl Iterator<Item = usize>) -> bool {
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
            for cpu in cpus {
                self.note(|tally| tally.fenced_cpus += 1);
                self.generations[cpu].fetch_add(1, Ordering::Relaxed);
            }
        }
        self.take_step();
        succeeds
    }
}

impl Threads for Machine {
    fn thread(&self) -> &ThreadWords {
        &self.here().own
    }

    fn birth(&self) -> &AtomicU32 {
        &self.birth
    }

    fn on_thread_end(&self, _: &ReaderSlot) -> bool {
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
}

impl Time for Machine {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }
}

impl Counts for Machine {
    fn count(&self, _slot: Slot, event: Event) {
        if let Event::Counted(counter, n) = event {
            self.counted[counter].fetch_add(n.into(), Ordering::Relaxed);
        }
    }

    fn slab_operation(&self) {
        self.note(|tally| tally.slab_operations += 1);
    }
}

impl Platform for Machine {
    const HAS_PAGE_LISTS: bool = true;
    const UNWINDS: bool = true;

    fn has_planted(&self, bug: Planted) -> bool {
        *self.planted.lock().unwrap_or_else(PoisonError::into_inner) == Some(bug)
    }
}
