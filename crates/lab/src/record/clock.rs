//! Converts values of the processor's time-stamp counter, with which a process dates its calls, to
//! nanoseconds.

use super::reader::now;
use std::thread;
use std::time::Duration;

/// How long the processor's counter is watched to know its speed.
const WATCH: Duration = Duration::from_millis(40);

/// The processor's counter as nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) ticks: u64,
    pub(super) ns: u64,
    /// Nanoseconds of 2^32 ticks.
    each: u64,
}

impl Clock {
    pub(super) fn watch(ticks: fn() -> u64) -> Clock {
        let (from, from_ns) = (ticks(), now());
        thread::sleep(WATCH);
        let (to, to_ns) = (ticks(), now());
        let took = u128::from(to_ns - from_ns) << 32;
        let each = took / u128::from(to.wrapping_sub(from).max(1));
        Clock { ticks: to, ns: to_ns, each: each as u64 }
    }

    pub(super) fn ns(self, ticks: u64) -> u64 {
        let since = u128::from(ticks.saturating_sub(self.ticks));
        self.ns + ((since * u128::from(self.each)) >> 32) as u64
    }

    pub(super) fn ticks_of(self, ns: u64) -> u64 {
        ((u128::from(ns) << 32) / u128::from(self.each.max(1))) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_told_as_nanoseconds() {
        let clock = Clock { ticks: 1000, ns: 50, each: 1 << 31 };
        assert_eq!((clock.ns(1000), clock.ns(3000), clock.ns(0)), (50, 1050, 50));
        assert_eq!(clock.ticks_of(1000), 2000);
    }
}
