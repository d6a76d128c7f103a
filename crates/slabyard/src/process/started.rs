//! The yards of the process that have started, whatever their types, and the lock for starts.

use crate::platform::Threads;
use crate::platform::linux::Linux;
use crate::sync::{AtomicPtr, AtomicU32, AtomicUsize, Once, Ordering, SleepLock};
use core::ptr;

/// What forks and ends of threads need of a yard of any type.
pub(super) trait Started: Sync {
    fn platform(&self) -> &Linux;
    fn adopt_foreign_rows(&self);
    fn drain_thread(&self);
}

/// A yard's element of the list.
pub(super) struct Node {
    yard: Once<&'static dyn Started>,
    /// The yard that started before.
    next: AtomicPtr<Node>,
}

/// The yard that started last.
static STARTED: AtomicPtr<Node> = AtomicPtr::new(ptr::null_mut());

impl Node {
    pub(super) const fn new() -> Self {
        Node { yard: Once::new(), next: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Adds a yard to the list, once. The lock of starts is held.
    pub(super) fn add(&'static self, yard: &'static dyn Started) {
        self.yard.set(yard);
        self.next.store(STARTED.load(Ordering::Relaxed), Ordering::Relaxed);
        // Release pairs with the Acquire in `each_started`.
        STARTED.store(ptr::from_ref(self).cast_mut(), Ordering::Release);
    }
}

/// Calls `f` with each yard that has started.
pub(super) fn each_started(f: impl Fn(&dyn Started)) {
    let mut at = STARTED.load(Ordering::Acquire);
    // SAFETY: null, or a node that `add` got by a reference that lasts for ever.
    while let Some(node) = unsafe { at.as_ref() } {
        f(*node.yard.get());
        at = node.next.load(Ordering::Relaxed);
    }
}

/// The lock of starts: who starts a yard has it, or forks. Its owner may take it again: a handler of
/// a fork may start a yard, or fork.
static STARTS: SleepLock = SleepLock::new();
/// Address of the owner's depth word, and how often it took the lock again.
static OWNER: AtomicUsize = AtomicUsize::new(0);
static AGAIN: AtomicU32 = AtomicU32::new(0);

/// Sleeping needs no yard that is ready.
static SLEEP: Linux = Linux::new();

/// Waits until no other thread starts a yard or forks, and keeps others from it.
pub fn lock_starts() {
    let me = ptr::from_ref(&SLEEP.thread().depth).addr();
    if OWNER.load(Ordering::Relaxed) == me {
        AGAIN.fetch_add(1, Ordering::Relaxed);
        return;
    }
    STARTS.acquire(&SLEEP);
    OWNER.store(me, Ordering::Relaxed);
}

/// Ends what [`lock_starts`] began.
pub fn unlock_starts() {
    if AGAIN.load(Ordering::Relaxed) > 0 {
        AGAIN.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    OWNER.store(0, Ordering::Relaxed);
    STARTS.release(&SLEEP);
}

#[cfg(test)]
mod tests;
