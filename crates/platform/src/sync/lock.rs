//! A lock that spins briefly and then sleeps, with a rank.
//!
//! Ranks check the engine's lock order: in builds with debug assertions, taking a lock panics if
//! the thread holds a lock of the same or a higher rank.
//!
//! Under a [`LEAVES`] lock a thread waits for nothing: it takes no other lock and makes no system
//! call ([`may_call`]).

use super::{AtomicU32, Ordering};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

/// The lock order, outermost first. A thread takes locks in rising rank only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Rank {
    /// Drains of rows: reclaim passes, trim, verify. One thread at a time.
    Drain = 0,
    /// The grace period under way, and the places of readers.
    Grace = 1,
    /// What waits for readers: discarded slabs, freed objects.
    Waiting = 2,
    /// A cache's barn: lists of full and of empty sheaves.
    Barn = 3,
    /// A cache's partial list.
    List = 4,
    /// The pool of sheaves.
    Pool = 5,
    /// Growing the region's committed part.
    Grow = 6,
    /// The advice on huge pages that was given to the kernel.
    Advice = 7,
    /// The buddy's free lists.
    Pages = 8,
}

/// Locks under which nothing waits: lists that every CPU needs.
const LEAVES: u32 = 1 << Rank::Barn as u32 | 1 << Rank::List as u32 | 1 << Rank::Pages as u32;

/// Panics, in builds with debug assertions, where this thread holds a lock under which
/// no system call may be made. Platforms ask before each of theirs.
#[inline]
#[track_caller]
pub fn may_call<P: Park>(park: &P) {
    if cfg!(debug_assertions) {
        let held = park.held().load(Ordering::Relaxed);
        assert!(held & LEAVES == 0, "a system call while holding mask {held:#b}");
    }
}

/// What a lock needs from the floor above it: how to sleep, and a word of this
/// thread for the ranks that it holds.
pub trait Park {
    /// Sleeps while `*word == value`; may return early.
    fn wait(&self, word: &AtomicU32, value: u32);
    /// As [`Park::wait`], for at most this many milliseconds.
    fn wait_at_most(&self, word: &AtomicU32, value: u32, ms: u64);
    /// As [`Park::wait`], for a thread that may be gone: where threads can be killed one by one, true
    /// if nobody woke this one for this many milliseconds.
    #[inline]
    fn wait_for_living(&self, word: &AtomicU32, value: u32, _ms: u64) -> bool {
        self.wait(word, value);
        false
    }
    /// Wakes one sleeper of `word`.
    fn wake(&self, word: &AtomicU32);
    /// Bit mask of the ranks that this thread holds.
    fn held(&self) -> &AtomicU32;
    /// A place where the modelled machine may switch to another thread.
    fn step(&self) {}
    /// A lock was taken, without a try: the modelled machine counts it.
    #[inline]
    fn locked(&self) {}
    /// True if the process is known to have one thread.
    #[inline]
    fn is_only_thread(&self) -> bool {
        false
    }
    /// True if no other thread of this process can hold a lock: a child of a fork, before what its
    /// parent's threads left half done is [repaired](Lock::abandon). A lock that is taken then is
    /// one of a thread that does not exist here.
    #[inline]
    fn is_orphan(&self) -> bool {
        false
    }
}

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const CONTENDED: u32 = 2;
// A model checker tries each number of turns.
const SPINS: u32 = if cfg!(loom) { 1 } else { 64 };

/// A ranked lock around a value.
pub struct Lock<T> {
    word: AtomicU32,
    rank: Rank,
    value: UnsafeCell<T>,
}

// SAFETY: the guard is the only way to the value, and there is one at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// An open lock.
    #[must_use]
    pub const fn new(rank: Rank, value: T) -> Self {
        Lock { word: AtomicU32::new(FREE), rank, value: UnsafeCell::new(value) }
    }

    /// Where the value is: for readers outside of the process.
    pub fn as_ptr(&self) -> *const T {
        self.value.get()
    }

    /// Takes the lock.
    #[inline]
    pub fn lock<'a, P: Park>(&'a self, park: &'a P) -> Guard<'a, T, P> {
        self.enter(park);
        park.step();
        park.locked();
        // Acquire pairs with the Release in `Guard::drop`.
        if self.word.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_slow(park);
        }
        Guard { lock: self, park }
    }

    /// Takes the lock if no thread holds it.
    #[inline]
    pub fn try_lock<'a, P: Park>(&'a self, park: &'a P) -> Option<Guard<'a, T, P>> {
        self.word.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).ok()?;
        self.enter(park);
        Some(Guard { lock: self, park })
    }

    #[cold]
    fn lock_slow<P: Park>(&self, park: &P) {
        for _ in 0..SPINS {
            if self.word.load(Ordering::Relaxed) == FREE
                && self
                    .word
                    .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
            super::spin_loop();
        }
        while self.word.swap(CONTENDED, Ordering::Acquire) != FREE {
            if park.is_orphan() {
                return;
            }
            park.wait(&self.word, CONTENDED);
        }
    }

    /// In the child of a fork, while no other thread uses the lock: it is free, whoever held it in
    /// the parent. True if a thread did: then what it protects may be half changed.
    pub fn abandon(&self) -> bool {
        self.word.swap(FREE, Ordering::Relaxed) != FREE
    }

    fn enter<P: Park>(&self, park: &P) {
        if cfg!(debug_assertions) {
            let held = park.held().load(Ordering::Relaxed);
            assert!(
                held >> (self.rank as u32) == 0 && held & LEAVES == 0,
                "lock order: {:?} while holding mask {held:#b}",
                self.rank
            );
            park.held().store(held | 1 << self.rank as u32, Ordering::Relaxed);
        }
    }
}

/// The lock, held.
#[must_use]
pub struct Guard<'a, T, P: Park> {
    lock: &'a Lock<T>,
    park: &'a P,
}

impl<T, P: Park> Deref for Guard<'_, T, P> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is proof that this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T, P: Park> DerefMut for Guard<'_, T, P> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is proof that this thread holds the lock.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T, P: Park> Drop for Guard<'_, T, P> {
    #[inline]
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            let held = self.park.held();
            let mask = held.load(Ordering::Relaxed) & !(1 << self.lock.rank as u32);
            held.store(mask, Ordering::Relaxed);
        }
        // Release pairs with the Acquire in `lock`, `try_lock` and `lock_slow`.
        if self.lock.word.swap(FREE, Ordering::Release) == CONTENDED {
            self.park.wake(&self.lock.word);
        }
        self.park.step();
    }
}

#[cfg(test)]
mod tests;
