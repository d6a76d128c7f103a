//! What the recorder's threads count, and what one tells the others.
//!
//! Neighbours: [`super::merger`] counts, [`super::recorder`] shows it to who waits for the end.

use super::reader;
use super::sieve::RecorderThread;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// How far it came.
#[derive(Default)]
pub struct Progress {
    pub(super) start: AtomicU64,
    pub(super) events: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) lost: AtomicU64,
    over: AtomicBool,
    /// [`RecorderThread`], in two words.
    own: AtomicU32,
    own_until: AtomicU64,
    pub(super) left_out: AtomicU64,
}

impl Progress {
    /// Nanoseconds since the trace began.
    pub fn now(&self) -> u64 {
        reader::now().saturating_sub(self.start.load(Ordering::Relaxed))
    }

    /// Events in the file so far.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Bytes of the file so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Events lost so far.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// True if it ended by itself: the file is full, or something went wrong.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    pub(super) fn set_over(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// The thread whose own events are left out.
    pub(super) fn own(&self) -> RecorderThread {
        // Pairs with the store in `begin_own`.
        let number = self.own.load(Ordering::Acquire);
        RecorderThread { number, until: self.own_until.load(Ordering::Relaxed) }
    }

    /// From now on there is this one.
    pub(super) fn begin_own(&self, thread: u32) {
        self.own_until.store(u64::MAX, Ordering::Relaxed);
        self.own.store(thread, Ordering::Release);
    }

    /// The kernel may give its number to others from now on.
    pub(super) fn end_own(&self) {
        self.own_until.store(reader::now(), Ordering::Relaxed);
    }
}
