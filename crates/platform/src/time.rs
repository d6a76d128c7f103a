//! Time: the clock of a platform. ([`crate::Park`] provides sleeping.)

/// A clock that never goes back.
pub trait Time {
    /// Milliseconds; coarse and cheap.
    fn now_ms(&self) -> u64;

    /// Nanoseconds of that clock, as fine as the machine has it.
    fn now_ns(&self) -> u64 {
        self.now_ms() * 1_000_000
    }
}
