//! A visit: one slow path under way, from its entry through the gate to its end.
//!
//! Neighbours: what is done on the way, if it is due: a drain that was asked for and
//! ticks ([`super::tick`]), mail ([`super::mail`]), deferred frees
//! ([`super::deferred`]).
//! Invariant: a thread is in one visit at a time; a handler that interrupts it finds
//! [`INSIDE`] and gets none.

use super::Yard;
use crate::platform::Platform;
use crate::sync::Ordering;

/// Bit of the depth word: this thread is inside of a slow path. The other bits
/// count its visits.
pub(super) const INSIDE: u32 = 1;
/// Without a heartbeat, every 16th visit looks at the clock.
const EVERY: u32 = 15 << 1;

impl<P: Platform> Yard<P> {
    /// Enters a slow path; `None` inside of one that a signal interrupted.
    pub(super) fn visit(&self) -> Option<Visit<'_, P>> {
        let p = self.platform();
        let depth = p.depth();
        let visits = depth.load(Ordering::Relaxed);
        if visits & INSIDE != 0 {
            return None;
        }
        depth.store(visits | INSIDE, Ordering::Relaxed);
        p.enter();
        self.gate.enter(p);
        let visit = Visit { yard: self };
        self.answer_drain();
        self.answer_mail();
        if visits & EVERY == 0 || self.beat.load(Ordering::Relaxed) != 0 {
            self.tick_if_due();
        }
        Some(visit)
    }

    /// Closes the gate: when it returns, no slow path is under way, and none
    /// begins until [`Yard::open`]. For fork.
    pub fn close(&self) {
        if self.platform().depth().load(Ordering::Relaxed) & INSIDE == 0 {
            self.gate.close(self.platform());
        }
    }

    /// Opens the gate again.
    pub fn open(&self) {
        if self.platform().depth().load(Ordering::Relaxed) & INSIDE == 0 {
            self.gate.open(self.platform());
        }
    }
}

/// A slow path under way.
pub(super) struct Visit<'a, P: Platform> {
    yard: &'a Yard<P>,
}

impl<P: Platform> Drop for Visit<'_, P> {
    fn drop(&mut self) {
        let yard = self.yard;
        let p = yard.platform();
        if yard.deferred.load(Ordering::Relaxed) != 0 {
            yard.run_deferred();
        }
        yard.begin_beat_if_due();
        yard.gate.leave(p);
        // One visit more, and outside again.
        let visits = p.depth().load(Ordering::Relaxed);
        p.depth().store((visits & !INSIDE).wrapping_add(2), Ordering::Relaxed);
    }
}
