//! Checks of live large blocks while other threads allocate and free them.
//!
//! A block is registered before it has its seal, and its pages fault once it is freed: a check must
//! not read a block in these states. A check announces the block, reads it only if no change is
//! under way, and uses the result only if no change began meanwhile. A thread that allocates or
//! frees a block counts a change, and does not unmap the pages of a block that is being checked.
//!
//! The counts are a sequence lock with several writers (after H.-J. Boehm, "Can seqlocks get along
//! with programming language memory models?", 2012). A check stores the address and then reads the
//! counts, a change counts and then reads the address, with a SeqCst fence between: at least one
//! sees the other (Dekker's argument). A free waits for a check only briefly: a signal handler that
//! frees the block may have interrupted the check.
//!
//! Neighbour: [`crate::debugging::large`] allocates, frees and checks such blocks.

use crate::platform::Platform;
use crate::sync::{AtomicUsize, Ordering, TryLock, fence, spin_loop};

/// A change waits for a look this many spins at most.
const CHANGE_SPINS: u32 = 20_000;
/// A look spins so often for a pause of the changes, and then sleeps a millisecond.
const LOOK_SPINS: u32 = 1000;
const SLEEP_MS: u64 = 1;
/// Sleeps of a look, until changes made it give up.
pub(crate) const PATIENCE: u32 = 100;

/// Who looks, and who changes.
pub struct Looks {
    /// Taken while a look is under way.
    held: TryLock,
    /// The block that is looked at, or 0.
    at: AtomicUsize,
    /// Changes that began, and that ended.
    begun: AtomicUsize,
    ended: AtomicUsize,
}

/// A change until it is dropped.
pub struct Change<'a>(&'a Looks);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `look`: who finds the change ended finds what it did.
        self.0.ended.fetch_add(1, Ordering::Release);
    }
}

impl Default for Looks {
    fn default() -> Self {
        Self::new()
    }
}

impl Looks {
    /// Nobody looks, nothing changes.
    #[must_use]
    pub const fn new() -> Self {
        Looks {
            held: TryLock::new(),
            at: AtomicUsize::new(0),
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
        }
    }

    /// In the child of a fork: nobody looks, and no change is under way. True if one was.
    pub(crate) fn forget(&self) -> bool {
        self.at.store(0, Ordering::Relaxed);
        let begun = self.begun.load(Ordering::Relaxed);
        let ended = self.ended.swap(begun, Ordering::Relaxed);
        self.held.abandon();
        ended != begun
    }

    /// A block is made or freed until the value is dropped.
    #[must_use]
    pub fn change(&self) -> Change<'_> {
        for _ in 0..CHANGE_SPINS {
            // Relaxed: it is a courtesy.
            if self.held.word().load(Ordering::Relaxed) == 0 {
                break;
            }
            spin_loop();
        }
        self.begun.fetch_add(1, Ordering::Relaxed);
        // What changes comes after the count, as does the look at the address in `is_at`.
        fence(Ordering::SeqCst);
        Change(self)
    }

    /// True if a look may read a block: in a change, whose block it is to be.
    #[must_use]
    pub fn is_at(&self, address: usize) -> bool {
        // Acquire pairs with the Release at the end of `look`, which has read the block by then.
        self.at.load(Ordering::Acquire) == address
    }

    /// Looks at a block while nothing changes: calls `read`, and `restore` with what it found.
    /// `None` if it found nothing, or if changes did not pause, which halves the patience.
    pub fn look<P: Platform, R>(
        &self,
        p: &P,
        address: usize,
        patience: &mut u32,
        read: impl Fn() -> Option<R>,
        restore: impl FnOnce(&R),
    ) -> Option<R> {
        if !self.try_often(p, *patience, |_| self.held.try_acquire()) {
            *patience /= 2;
            return None;
        }
        self.at.store(address, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut found = None;
        let looked = self.try_often(p, *patience, |_| {
            let ended = self.ended.load(Ordering::Acquire);
            let quiet = || self.begun.load(Ordering::Relaxed) == ended;
            if !quiet() {
                return false;
            }
            found = read();
            // Pairs with the fence in `change`: a change of what was read has counted itself.
            fence(Ordering::Acquire);
            quiet()
        });
        if !looked {
            found = None;
            *patience /= 2;
        }
        if let Some(found) = &found {
            restore(found);
        }
        self.at.store(0, Ordering::Release);
        self.held.release();
        found
    }

    fn try_often<P: Platform>(&self, p: &P, patience: u32, mut f: impl FnMut(u32) -> bool) -> bool {
        for nth in 0..=patience {
            for _ in 0..LOOK_SPINS {
                if f(nth) {
                    return true;
                }
                spin_loop();
            }
            p.wait_at_most(self.held.word(), 1, SLEEP_MS);
        }
        false
    }
}
