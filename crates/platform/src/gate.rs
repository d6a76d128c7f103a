//! The gate: every slow path enters through it, so that a check or a count can wait until no slow
//! path is under way and no object is in transit.
//!
//! The threads inside are counted in stripes of one cache line each; each thread uses one stripe. A
//! thread that enters increments its stripe and then reads whether the gate is closed; a thread
//! that closes the gate stores the closed state and then reads the stripes. All four accesses are
//! SeqCst, so at least one of the two threads sees the other's store (Dekker's argument). (A
//! process's only thread adds without an atomic instruction, [`crate::sync::count`], because no
//! other thread can close the gate.)
//!
//! A thread that finds the gate closed can wait, because the gate is closed only briefly, by a
//! thread that takes no lock of the C library. A thread inside waits for no lock but the yard's
//! own, so the closing thread waits briefly, too. But a thread can be killed inside while others
//! live on: a vfork(2) child is a separate process that shares this memory. The killed thread stays
//! counted, so the closing thread gives up after [`LONGEST_MS`]. A fork does not close the gate:
//! between its handlers and the fork itself the C library waits for locks whose holders may wait
//! for memory. The child of a fork asks here whether its parent's threads were inside
//! ([`Gate::forget`]), and repairs what they left half done.

use crate::Platform;
use crate::sync::{AtomicU32, Ordering, count};

const STRIPES: usize = 16;

/// A thread inside for which the gate waits so long, while none leaves, was killed there, or a
/// debugger holds it.
const LONGEST_MS: u64 = 10_000;

#[repr(align(64))]
struct Stripe(AtomicU32);

/// A thread inside: the stripe that counts it.
#[derive(Clone, Copy)]
pub struct Inside<'a>(&'a AtomicU32);

/// Where the threads were that a child forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// In a slow path.
    pub inside: bool,
    /// Looking, with the gate closed.
    pub looked: bool,
}

// Values of `Gate::closed`.
const OPEN: u32 = 0;
const CLOSED: u32 = 1;

/// The gate: counts of the threads inside, and whether it is closed.
pub struct Gate {
    closed: AtomicU32,
    stripes: [Stripe; STRIPES],
}

impl Gate {
    /// An open gate, with no thread inside.
    #[allow(clippy::new_without_default, reason = "it is for a constant")]
    pub const fn new() -> Self {
        Gate {
            closed: AtomicU32::new(OPEN),
            stripes: [const { Stripe(AtomicU32::new(0)) }; STRIPES],
        }
    }

    /// Address of the first stripe, how many there are, bytes from one to the next.
    pub fn words(&self) -> [usize; 3] {
        [self.stripes.as_ptr() as usize, STRIPES, size_of::<Stripe>()]
    }

    fn stripe<P: Platform>(&self, p: &P) -> &AtomicU32 {
        // The depth word's address tells threads apart and stays the same.
        &self.stripes[stripe_of(core::ptr::from_ref(&p.thread().depth) as usize)].0
    }

    /// Counts the caller inside, as soon as the gate is open.
    #[inline]
    pub fn enter<P: Platform>(&self, p: &P) -> Inside<'_> {
        let stripe = self.stripe(p);
        count(p, stripe, 1, Ordering::SeqCst);
        if self.closed.load(Ordering::SeqCst) != OPEN {
            self.enter_closed(p, stripe);
        }
        Inside(stripe)
    }

    /// True while a thread looks: who enters now waits for it.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed) != OPEN
    }

    /// Waits until the gate is open; the stripe counts the caller before and after.
    #[cold]
    fn enter_closed<P: Platform>(&self, p: &P, stripe: &AtomicU32) {
        loop {
            self.leave(p, Inside(stripe));
            self.wait_until_open(p);
            stripe.fetch_add(1, Ordering::SeqCst);
            if self.closed.load(Ordering::SeqCst) == OPEN {
                return;
            }
        }
    }

    fn wait_until_open<P: Platform>(&self, p: &P) {
        while self.closed.load(Ordering::SeqCst) != OPEN {
            p.wait(&self.closed, CLOSED);
        }
        // `open` wakes one sleeper: each wakes the next.
        p.wake(&self.closed);
    }

    /// The caller is no longer inside; a thread that waits to close the gate looks again.
    pub fn leave<P: Platform>(&self, p: &P, Inside(stripe): Inside<'_>) {
        count(p, stripe, 1u32.wrapping_neg(), Ordering::SeqCst);
        if self.closed.load(Ordering::SeqCst) != OPEN {
            p.wake(stripe);
        }
    }

    /// Closes the gate and waits until no thread is inside. The caller is outside, and no signal
    /// handler that interrupts it comes here: its depth word says so. False, and the gate is open, if
    /// a thread inside does not leave.
    #[must_use]
    pub fn close<P: Platform>(&self, p: &P) -> bool {
        let (set, seen) = (Ordering::SeqCst, Ordering::SeqCst);
        while self.closed.compare_exchange(OPEN, CLOSED, set, seen).is_err() {
            self.wait_until_open(p);
        }
        for Stripe(stripe) in &self.stripes {
            loop {
                let inside = stripe.load(Ordering::SeqCst);
                if inside == 0 {
                    break;
                }
                if p.wait_for_living(stripe, inside, LONGEST_MS) {
                    self.open(p);
                    return false;
                }
            }
        }
        true
    }

    /// Closes the gate if no thread is inside but the caller, whose slow path will not go on. False,
    /// and the gate is as it was, if another may be.
    pub fn close_behind<P: Platform>(&self, p: &P) -> bool {
        let (set, seen) = (Ordering::SeqCst, Ordering::SeqCst);
        if self.inside() != 1 || self.closed.compare_exchange(OPEN, CLOSED, set, seen).is_err() {
            return false;
        }
        // Who enters from here on sees that it is closed, and waits outside.
        if self.inside() == 1 {
            return true;
        }
        self.open(p);
        false
    }

    /// Opens the gate that this thread closed, and takes its own slow path off.
    pub fn open_behind<P: Platform>(&self, p: &P) {
        self.stripe(p).fetch_sub(1, Ordering::SeqCst);
        self.open(p);
    }

    /// Of a thread that may be counted inside, and is not: true if it is not counted any more. It
    /// was not if nobody is. One that is counted may be another thread, unless there is none.
    pub fn forget_passing<P: Platform>(&self, p: &P) -> bool {
        match self.inside() {
            0 => true,
            1 if p.is_only_thread() => {
                self.leave(p, Inside(self.stripe(p)));
                true
            }
            _ => false,
        }
    }

    /// Threads inside.
    fn inside(&self) -> u32 {
        self.stripes.iter().map(|Stripe(stripe)| stripe.load(Ordering::SeqCst)).sum()
    }

    /// Opens the gate that this thread closed.
    pub fn open<P: Platform>(&self, p: &P) {
        self.closed.store(OPEN, Ordering::SeqCst);
        p.wake(&self.closed);
    }

    /// In the child of a fork, whose threads are all outside: forgets the parent's, and says where
    /// those were.
    pub fn forget(&self) -> Forgotten {
        let looked = self.closed.swap(OPEN, Ordering::SeqCst) != OPEN;
        let mut inside = false;
        for Stripe(stripe) in &self.stripes {
            inside |= stripe.swap(0, Ordering::SeqCst) != 0;
        }
        Forgotten { inside, looked }
    }
}

/// The stripe of a thread, from the address of its depth word. Threads' words are as far apart
/// as their stacks, at multiples of large powers of two, so the hash must use all bits.
/// (Fibonacci hashing, Knuth, TAOCP 6.4, twice: done once, it puts threads of some distances
/// into half of the stripes.)
fn stripe_of(address: usize) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    // The two bits that all have in common are shifted out.
    let once = (address as u64 >> 2).wrapping_mul(GOLDEN);
    let hash = (once ^ once >> 32).wrapping_mul(GOLDEN);
    (hash >> (u64::BITS - STRIPES.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads' blocks are a stack and a page apart, whatever the stacks' size.
    #[test]
    fn threads_share_few_stripes() {
        for stack_bytes in [64usize << 10, 1 << 20, 2 << 20, 8 << 20, 64 << 20] {
            for begin in [0x7f00_0000_0640usize, 0x7_ffff_0040, 0x7e12_3456_7680] {
                for gap in [0, 4096, 8192] {
                    let blocks = |n: usize| (0..n).map(move |i| begin + i * (stack_bytes + gap));
                    let used = |n: usize| {
                        let set: std::collections::BTreeSet<_> = blocks(n).map(stripe_of).collect();
                        set.len()
                    };
                    assert!(used(8) >= 3, "8 threads: {} stripes", used(8));
                    assert!(used(64) >= 12, "64 threads: {} stripes", used(64));
                    let most = (0..STRIPES)
                        .map(|stripe| blocks(256).filter(|b| stripe_of(*b) == stripe).count())
                        .max();
                    assert!(most <= Some(48), "{most:?} of 256 threads in one stripe");
                }
            }
        }
    }
}
