//! Repairs a slow path that its thread left by a jump: a signal handler interrupted the slow path
//! and ended by `siglongjmp`. Without the repair the thread would seem to be in a handler for ever:
//! each of its allocations would be a mapping, and its frees would be deferred.
//!
//! Later calls overwrite the mark in the abandoned stack frame ([`crate::platform::mark`]) sooner
//! or later; as long as the mark is intact, the frame may be alive, so the next call checks again.
//!
//! The jump leaves the yard in the state that a fork leaves to its child, so the same repair
//! ([`crate::child`]) corrects it and frees the locks that the thread held. The gate is closed
//! meanwhile and no other thread is inside. If another thread is inside, the next call tries again;
//! if that thread waits for a lock that the jump left taken, the repair never succeeds.
//!
//! The stack pointer does not show that the frame is gone: a handler may run on a stack of its own,
//! and a coroutine on a stack anywhere. An overwritten mark does, since no other function writes to
//! a frame that is in use. So does a mark in the frames of the call that looks, which may never
//! write there: a killed child's lay in such a gap on each call. A jump goes undetected if it leaves
//! the few instructions at the gate while other threads are inside, or an in-place `realloc`, a trim
//! or a statistics call, which set no mark.
//!
//! Neighbours: [`crate::slow_path`] asks whether a jump happened; [`crate::gate`] keeps other
//! threads out. Invariant: while the repair runs, no other thread is in a slow path, and no signal
//! handler runs in this thread.

use crate::child::repair;
use crate::engine::Engine;
use crate::platform::Platform;
use crate::platform::birth::WHOLE;
use crate::platform::mark::{MARKED, Mark, PASSING, left};
use crate::sync::Ordering;
use crate::yard::Yard;
use crate::yard::depth::INSIDE;

/// Bytes of the stack that a look writes to, below its caller.
const SCRUBBED: usize = 768;

/// In a thread that is inside of a slow path: true if it is so no more, because that was left by
/// a jump. The call that looks has a mark, too, or none.
#[cold]
#[inline(never)]
pub(crate) fn gave_jumped_up<P: Platform, E: Engine>(
    yard: &Yard<P, E>,
    own: Option<&Mark>,
) -> bool {
    let p = yard.platform();
    if !P::HAS_MARKS {
        return false;
    }
    let word = p.thread().frame.load(Ordering::Relaxed);
    // Without a mark; or what is to be repaired in the child of a fork is not.
    if word & !PASSING == 0 || p.birth().load(Ordering::Relaxed) != WHOLE {
        return false;
    }
    // Stacks grow downwards: from here to its own mark all is of this call.
    let frames = (&raw const word).addr()..own.map_or(0, |own| core::ptr::from_ref(own).addr());
    if !frames.contains(&(word & !PASSING)) {
        scrub();
        if !p.is_other(word & !PASSING, MARKED) {
            return false;
        }
    }
    if word & PASSING != 0 {
        let is_outside = yard.gate.forget_passing(p);
        if is_outside {
            forget_jumped(yard);
        }
        return is_outside;
    }
    // Readers take their places, under a lock, outside of the gate.
    if yard.heap.rcu.metadata_bytes() != 0 {
        return false;
    }
    let given_up = p.without_handlers(|| {
        let is_alone = yard.gate.close_behind(p);
        if is_alone {
            p.held().store(0, Ordering::Relaxed);
            repair(yard, false);
            yard.gate.open_behind(p);
            forget_jumped(yard);
        }
        is_alone
    });
    given_up == Some(true)
}

/// The thread is outside. In this order: in a handler between the two it is so already.
fn forget_jumped<P: Platform, E: Engine>(yard: &Yard<P, E>) {
    yard.platform().thread().depth.fetch_and(!INSIDE, Ordering::Relaxed);
    left(yard.platform());
}

/// Writes over what frames that are gone left below the caller's.
#[inline(never)]
fn scrub() {
    let mut bytes = [0u8; SCRUBBED];
    core::hint::black_box(&mut bytes);
}
