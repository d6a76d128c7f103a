//! RCU readers on the machine: the store that announces a reader waits in a one-entry store buffer,
//! as on a CPU whose loads may pass earlier stores.
//!
//! The store becomes visible to other threads at the thread's next store, at one of its steps by
//! chance, when another thread is scheduled on its CPU, at a fence, and when time passes.

use super::Machine;
use super::config::Broken;
use super::turns::{PendingStore, VirtualThread};
use slabyard_platform::reader::{ENDED, ReaderSlot};
use slabyard_platform::sync::{AtomicU64, Ordering};
use std::sync::{MutexGuard, PoisonError};

fn announced(words: &VirtualThread) -> MutexGuard<'_, Option<PendingStore>> {
    // Its holder cannot panic.
    words.announced.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Machine {
    pub(super) fn announce_later(&self, word: &AtomicU64, value: u64) {
        self.take_step();
        let me = self.me();
        self.deliver(me);
        let word = std::ptr::from_ref(word).expose_provenance();
        *announced(&self.threads[me]) = Some(PendingStore { word, value });
        // By chance it is there before the next load.
        if self.is_hasty() {
            self.deliver(me);
        }
        self.take_step();
    }

    pub(super) fn own_announced(&self, word: &AtomicU64) -> u64 {
        let own = announced(self.here());
        match &*own {
            Some(own) if own.word == std::ptr::from_ref(word).addr() => own.value,
            _ => word.load(Ordering::Relaxed),
        }
    }

    /// A thread's store reaches the others.
    pub(super) fn deliver(&self, thread: usize) {
        if let Some(PendingStore { word, value }) = announced(&self.threads[thread]).take() {
            // SAFETY: a place's word, in a table that stays until the machine is dropped.
            unsafe { &*std::ptr::with_exposed_provenance::<AtomicU64>(word) }
                .store(value, Ordering::Release);
        }
    }

    pub(super) fn deliver_all(&self) {
        (0..self.threads.len()).for_each(|thread| self.deliver(thread));
    }

    pub(super) fn fence_all_readers(&self) -> bool {
        let left = &self.reader_fences_left;
        let succeeds = left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok();
        if succeeds && self.config.broken != Broken::ReaderFenceDoesNothing {
            self.deliver_all();
        }
        self.take_step();
        succeeds
    }

    /// Lets this many more fences of readers succeed, and refuses the rest.
    pub fn grant_reader_fences(&self, n: u64) {
        self.reader_fences_left.store(n, Ordering::Relaxed);
    }

    /// The calling thread ends, as far as readers are concerned: its place is taken back.
    pub fn end_reader(&self) {
        self.deliver(self.me());
        let [place, _] = &self.here().own.reader;
        let at = place.swap(ENDED, Ordering::Relaxed);
        if at > ENDED {
            // SAFETY: a place, in a table that stays until the machine is dropped.
            unsafe { &*std::ptr::with_exposed_provenance::<ReaderSlot>(at) }.leave();
        }
    }

    /// The calling thread is a new one, as far as readers are concerned.
    pub fn begin_reader(&self) {
        self.here().own.reader.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}
