//! Floor 9: quiescence, and the counts that are taken meanwhile ([`count`]).
//!
//! [`Yard::quiesce`] closes the gate, so that no slow path is under way, and, if the platform can,
//! stops every CPU's stacks. Checks and counts read the yard meanwhile.
//!
//! Neighbour: [`crate::quiesced`] walks over the stacks.

pub mod count;

pub use crate::quiesced::Quiesced;

use crate::engine::Engine;
use crate::platform::Platform;
use crate::slow_path::while_closed;
use crate::yard::Yard;

impl<P: Platform, E: Engine> Yard<P, E> {
    /// Runs `f` while the yard is quiesced. `None` in a signal handler that interrupted a slow path,
    /// and if a thread stays in one for ten seconds: it was killed there, as a child of `vfork` can be.
    /// `f` allocates nothing.
    pub fn quiesce<R>(&self, f: impl FnOnce(&Quiesced<'_, P, E>) -> R) -> Option<R> {
        let p = self.platform();
        while_closed(self, || {
            let _guard = self.drain.lock(p);
            let mut quiesced = Quiesced { yard: self, stopped: false };
            quiesced.stopped = p.can_stop() && quiesced.stop();
            let result = f(&quiesced);
            if quiesced.stopped {
                quiesced.start();
            }
            result
        })
    }
}
