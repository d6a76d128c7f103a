//! The gate: every slow path passes it, so that fork, verify and a count can
//! wait until none is under way and nothing is in transit.
//!
//! Counts lie in stripes of a cache line each, by thread. Entering raises the
//! stripe and then looks whether the gate is closed; closing shuts the gate and
//! then looks at the stripes. Both are SeqCst: one of the two sees the other
//! (Dekker's argument).

use crate::platform::Platform;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

const STRIPES: usize = 16;

#[repr(align(64))]
struct Stripe(AtomicU32);

/// Who is inside.
pub(super) struct Gate {
    closed: AtomicU32,
    /// Who closed it (the address of its depth word): may pass all the same.
    owner: AtomicUsize,
    stripes: [Stripe; STRIPES],
}

impl Gate {
    pub(super) const fn new() -> Self {
        Gate {
            closed: AtomicU32::new(0),
            owner: AtomicUsize::new(0),
            stripes: [const { Stripe(AtomicU32::new(0)) }; STRIPES],
        }
    }

    /// Address of the first stripe, how many there are, bytes from one to the next.
    pub(super) fn words(&self) -> [usize; 3] {
        [self.stripes.as_ptr() as usize, STRIPES, size_of::<Stripe>()]
    }

    fn me<P: Platform>(p: &P) -> usize {
        core::ptr::from_ref(p.depth()) as usize
    }

    fn stripe<P: Platform>(&self, p: &P) -> &AtomicU32 {
        // The depth word's address tells threads apart and stays the same.
        &self.stripes[Self::me(p) / 64 % STRIPES].0
    }

    pub(super) fn enter<P: Platform>(&self, p: &P) {
        let stripe = self.stripe(p);
        let mut waited = false;
        loop {
            stripe.fetch_add(1, Ordering::SeqCst);
            if self.closed.load(Ordering::SeqCst) == 0
                || self.owner.load(Ordering::Relaxed) == Self::me(p)
            {
                if waited {
                    // One sleeper was woken: it wakes the next.
                    p.wake(&self.closed);
                }
                return;
            }
            self.leave(p);
            p.wait(&self.closed, 1);
            waited = true;
        }
    }

    pub(super) fn leave<P: Platform>(&self, p: &P) {
        let stripe = self.stripe(p);
        stripe.fetch_sub(1, Ordering::SeqCst);
        if self.closed.load(Ordering::SeqCst) != 0 {
            p.wake(stripe);
        }
    }

    /// Closes the gate and waits until nobody is inside. The caller is outside.
    pub(super) fn close<P: Platform>(&self, p: &P) {
        // The owner first: a handler that interrupts us finds the gate either
        // open or ours, and never waits for the thread below it.
        let me = Self::me(p);
        while self.owner.compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            p.wait(&self.closed, 1);
        }
        self.closed.store(1, Ordering::SeqCst);
        for Stripe(stripe) in &self.stripes {
            loop {
                let inside = stripe.load(Ordering::SeqCst);
                if inside == 0 {
                    break;
                }
                p.wait(stripe, inside);
            }
        }
    }

    pub(super) fn open<P: Platform>(&self, p: &P) {
        self.closed.store(0, Ordering::SeqCst);
        self.owner.store(0, Ordering::SeqCst);
        p.wake(&self.closed);
    }
}
