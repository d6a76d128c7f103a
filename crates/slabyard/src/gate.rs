//! The gate: every slow path passes it, so that a fork, a check and a count can wait until
//! none is under way and nothing is in transit.
//!
//! The counts of threads inside lie in stripes of a cache line each, chosen by thread. A thread
//! that enters raises its stripe and then reads whether the gate is closed; a thread that
//! closes stores that the gate is closed and then reads the stripes. All four are SeqCst: one
//! of the two threads sees the other's store (Dekker's argument).
//!
//! A thread that finds the gate closed for a look waits: a look is short, and takes no lock of
//! the C library. A thread that finds it closed for a fork waits a millisecond at most, which
//! is as long as most forks take, and is then refused: it may hold a lock that the fork is
//! about to wait for (of a stream, of the loader, of a handler that the program registered).

use crate::platform::Platform;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

const STRIPES: usize = 16;

/// Why the gate is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Purpose {
    /// A check or a count reads the quiesced yard.
    Look = 1,
    /// The process forks.
    Fork = 2,
}

/// The owner's word: the address of a thread's depth word, and in the low bits how often that
/// thread closed the gate. A handler that interrupts a fork may fork itself.
struct Owner;

impl Owner {
    const NONE: usize = 0;
    /// The bit at which the address begins: it has 57 bits at most.
    const SHIFT: u32 = 7;
    /// The owner is about to open the gate, or has just done so.
    const LEAVES: usize = 1 << 6;
    const COUNT: usize = Self::LEAVES - 1;

    fn is(word: usize, me: usize) -> bool {
        word >> Self::SHIFT == me
    }
}

/// The value of [`Gate::closed`] while the gate is open.
const OPEN: u32 = 0;

/// A look waits for a fork at most so long, in sleeps of [`SLEEP_MS`]: the thread that looks
/// may hold a lock that the fork waits for.
const LOOK_WAITS_MS: u64 = 1000;
const SLEEP_MS: u64 = 10;
/// A thread that enters waits for a fork at most so long; after one that waited in vain, no
/// thread waits for the same fork.
const ENTER_WAITS_MS: u64 = 1;

#[repr(align(64))]
struct Stripe(AtomicU32);

/// A thread inside: the stripe that counts it.
#[derive(Clone, Copy)]
pub(crate) struct Inside<'a>(&'a AtomicU32);

/// The gate: counts of the threads inside, and whether and by whom it is closed.
pub(crate) struct Gate {
    closed: AtomicU32,
    /// 1: this fork takes longer than [`ENTER_WAITS_MS`].
    is_long: AtomicU32,
    /// The thread that closed it, and how often ([`Owner`]): that thread may enter.
    owner: AtomicUsize,
    stripes: [Stripe; STRIPES],
}

impl Gate {
    pub(crate) const fn new() -> Self {
        Gate {
            closed: AtomicU32::new(OPEN),
            is_long: AtomicU32::new(0),
            owner: AtomicUsize::new(0),
            stripes: [const { Stripe(AtomicU32::new(0)) }; STRIPES],
        }
    }

    /// Address of the first stripe, how many there are, bytes from one to the next.
    pub(crate) fn words(&self) -> [usize; 3] {
        [self.stripes.as_ptr() as usize, STRIPES, size_of::<Stripe>()]
    }

    fn me<P: Platform>(p: &P) -> usize {
        core::ptr::from_ref(p.depth()) as usize
    }

    fn stripe<P: Platform>(&self, p: &P) -> &AtomicU32 {
        // The depth word's address tells threads apart and stays the same.
        &self.stripes[stripe_of(Self::me(p))].0
    }

    /// The stripe that counts the caller inside; `None` if a fork is under way.
    #[inline]
    pub(crate) fn enter<P: Platform>(&self, p: &P) -> Option<Inside<'_>> {
        let stripe = self.stripe(p);
        stripe.fetch_add(1, Ordering::SeqCst);
        if self.closed.load(Ordering::SeqCst) == OPEN {
            return Some(Inside(stripe));
        }
        self.leave(p, Inside(stripe));
        self.enter_closed(p)
    }

    #[cold]
    fn enter_closed<P: Platform>(&self, p: &P) -> Option<Inside<'_>> {
        let stripe = self.stripe(p);
        let mut waited = false;
        loop {
            stripe.fetch_add(1, Ordering::SeqCst);
            let closed = self.closed.load(Ordering::SeqCst);
            let owner = self.owner.load(Ordering::Relaxed);
            let enters = closed == OPEN || Owner::is(owner, Self::me(p));
            let forking = closed == Purpose::Fork as u32;
            let refused = !enters && forking && self.is_long.load(Ordering::Relaxed) != 0;
            if !enters {
                self.leave(p, Inside(stripe));
            }
            if enters || refused {
                if waited {
                    // `open` wakes one sleeper: each wakes the next.
                    p.wake(&self.closed);
                }
                return enters.then_some(Inside(stripe));
            }
            if forking {
                p.wait_at_most(&self.closed, closed, ENTER_WAITS_MS);
                if self.is_forking() {
                    self.is_long.store(1, Ordering::Relaxed);
                }
            } else {
                p.wait(&self.closed, closed);
            }
            waited = true;
        }
    }

    pub(crate) fn leave<P: Platform>(&self, p: &P, Inside(stripe): Inside<'_>) {
        stripe.fetch_sub(1, Ordering::SeqCst);
        if self.closed.load(Ordering::SeqCst) != OPEN {
            p.wake(stripe);
        }
    }

    /// Closes the gate and waits until no thread is inside. The caller is outside. False if
    /// another thread's fork does not end in time: the caller has not closed the gate then.
    pub(crate) fn close<P: Platform>(&self, p: &P, purpose: Purpose) -> bool {
        // The owner first: a handler that interrupts us finds the gate either
        // open or ours, and never waits for the thread below it.
        let me = Self::me(p);
        let mut waited_ms = 0;
        loop {
            let owner = self.owner.load(Ordering::SeqCst);
            let next = if Owner::is(owner, me) { owner + 1 } else { me << Owner::SHIFT | 1 };
            // If it is ours, only our handlers change it, and they restore it.
            if (owner == Owner::NONE || Owner::is(owner, me))
                && self
                    .owner
                    .compare_exchange(owner, next, Ordering::SeqCst, Ordering::SeqCst)
                    .is_ok()
            {
                break;
            }
            let closed = self.closed.load(Ordering::SeqCst);
            if purpose == Purpose::Look && closed == Purpose::Fork as u32 {
                if waited_ms >= LOOK_WAITS_MS {
                    return false;
                }
                p.wait_at_most(&self.closed, closed, SLEEP_MS);
                waited_ms += SLEEP_MS;
            } else if closed != OPEN {
                p.wait(&self.closed, closed);
            } else {
                // Another thread is between its stores of `owner` and of `closed`.
                p.step();
            }
        }
        self.is_long.store(0, Ordering::Relaxed);
        self.closed.store(purpose as u32, Ordering::SeqCst);
        for Stripe(stripe) in &self.stripes {
            loop {
                let inside = stripe.load(Ordering::SeqCst);
                if inside == 0 {
                    break;
                }
                p.wait(stripe, inside);
            }
        }
        true
    }

    /// Opens the gate that this thread closed: once for each time.
    pub(crate) fn open<P: Platform>(&self, p: &P) {
        let owner = self.owner.load(Ordering::SeqCst);
        if owner & Owner::COUNT > 1 {
            // In a handler that interrupted a fork, before the fork opens the gate or while it
            // does so.
            if owner & Owner::LEAVES != 0 {
                self.closed.store(OPEN, Ordering::SeqCst);
            }
            self.owner.store(owner - 1, Ordering::SeqCst);
            return;
        }
        self.owner.store(owner | Owner::LEAVES, Ordering::SeqCst);
        self.closed.store(OPEN, Ordering::SeqCst);
        self.owner.store(Owner::NONE, Ordering::SeqCst);
        p.wake(&self.closed);
    }

    /// In the child of a fork: forgets the parent's threads that the gate was just refusing. The
    /// child's one thread is outside, or `inside` if it forked in a handler that interrupted a
    /// slow path.
    pub(crate) fn forget_others<P: Platform>(&self, p: &P, inside: bool) {
        self.stripes.iter().for_each(|Stripe(stripe)| stripe.store(0, Ordering::SeqCst));
        self.stripe(p).store(u32::from(inside), Ordering::SeqCst);
    }

    /// True while a fork is under way.
    pub(crate) fn is_forking(&self) -> bool {
        self.closed.load(Ordering::Relaxed) == Purpose::Fork as u32
    }

    /// Waits for a fork to end, for [`LOOK_WAITS_MS`] at most.
    pub(crate) fn wait_for_fork<P: Platform>(&self, p: &P) {
        for _ in 0..LOOK_WAITS_MS / SLEEP_MS {
            if !self.is_forking() {
                return;
            }
            p.wait_at_most(&self.closed, Purpose::Fork as u32, SLEEP_MS);
        }
    }
}

/// The stripe of a thread, from the address of its depth word. Threads' words lie as far apart
/// as their stacks, at multiples of large powers of two, so the hash must use all bits.
/// (Fibonacci hashing, Knuth, TAOCP 6.4, twice: done once, it puts threads of some distances
/// into half of the stripes.)
fn stripe_of(address: usize) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let once = (address as u64).wrapping_mul(GOLDEN);
    let hash = (once ^ once >> 32).wrapping_mul(GOLDEN);
    (hash >> (u64::BITS - STRIPES.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::machine::{Config, Machine};

    /// A handler that interrupts a fork forks too, wherever it interrupts it.
    #[test]
    fn a_fork_within_a_fork_leaves_the_gate_as_it_was() {
        let (machine, gate) = (Machine::new(Config::default()), Gate::new());
        let nested = || {
            assert!(gate.close(&machine, Purpose::Fork));
            assert!(gate.is_forking());
            gate.open(&machine);
        };
        assert!(gate.close(&machine, Purpose::Fork));
        nested();
        assert!(gate.is_forking(), "the outer fork goes on");
        gate.open(&machine);
        assert!(!gate.is_forking() && gate.owner.load(Ordering::Relaxed) == Owner::NONE);
        // As `open` leaves the words between its stores.
        let me = Gate::me(&machine) << Owner::SHIFT;
        for closed in [Purpose::Fork as u32, OPEN] {
            gate.owner.store(me | Owner::LEAVES | 1, Ordering::Relaxed);
            gate.closed.store(closed, Ordering::Relaxed);
            nested();
            assert!(!gate.is_forking(), "the outer fork is over");
            gate.owner.store(Owner::NONE, Ordering::Relaxed);
            gate.closed.store(OPEN, Ordering::Relaxed);
        }
        nested();
        assert!(gate.enter(&machine).is_some());
    }

    /// A fork copies the count of a thread that the gate was just refusing: in the child no
    /// thread takes it off.
    #[test]
    fn a_child_waits_for_no_thread_of_its_parent() {
        let (machine, gate) = (Machine::new(Config::default()), Gate::new());
        assert!(gate.close(&machine, Purpose::Fork));
        gate.stripes.iter().for_each(|Stripe(stripe)| stripe.store(1, Ordering::Relaxed));
        gate.forget_others(&machine, false);
        gate.open(&machine);
        // The machine's only thread would sleep for ever, which it reports.
        assert!(gate.close(&machine, Purpose::Look));
        gate.open(&machine);
        gate.stripes.iter().for_each(|Stripe(stripe)| stripe.store(1, Ordering::Relaxed));
        gate.forget_others(&machine, true);
        gate.leave(&machine, Inside(gate.stripe(&machine)));
        assert!(gate.close(&machine, Purpose::Look));
    }

    /// Threads' blocks lie a stack and a page apart, whatever the stacks' size.
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
