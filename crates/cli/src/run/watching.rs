//! Reads the program's memory at intervals while it runs, if a key typed at the terminal may kill
//! it.
//!
//! The interrupt key's signal reaches the program at the same time as us, and may kill it before
//! its memory can be read. The report then comes from the last read. No read stops the program, and
//! all reads together take at most a hundredth of one CPU's time.
//!
//! Neighbours: [`super::child`] asks when the next read is due and starts it; [`super::report`]
//! says how old the last read is.

use super::signals;
use slabyard_observe::process;
use slabyard_observe::{ReadScope, Snapshot};
use std::time::{Duration, Instant};

/// The pause before the first look; each is twice the one before, up to the last.
const FIRST: Duration = Duration::from_millis(100);
const LAST: Duration = Duration::from_secs(1);
/// A pause is as long as so many looks.
const LOOKS: u32 = 100;

/// A look, and when it was taken.
pub struct TimedLook {
    /// The snapshot that was taken last.
    pub look: Snapshot,
    /// By the clock that does not stop, for rates.
    pub at: Instant,
}

/// Takes looks at a process.
pub struct Watching {
    pid: u32,
    pause: Duration,
    due: Instant,
    taken: Option<TimedLook>,
}

impl Watching {
    /// Of a process that has just begun.
    pub fn new(pid: u32) -> Watching {
        Watching { pid, pause: FIRST, due: Instant::now() + FIRST, taken: None }
    }

    /// How long it is until the next look.
    pub fn pause(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// Takes a look if one is due, in the terminal's foreground alone. One at what is on Slabyard no
    /// longer leaves nothing: its last numbers would be another program's.
    pub fn look(&mut self) {
        if self.pause() > Duration::ZERO {
            return;
        }
        let at = Instant::now();
        if signals::in_foreground() {
            let look = process::sample(self.pid, ReadScope::default());
            self.taken = look.ok().map(|look| TimedLook { look, at });
        }
        self.pause = next(self.pause, at.elapsed());
        self.due = Instant::now() + self.pause;
    }

    /// Stops looking; the last look, if there was one.
    pub fn end(self) -> Option<TimedLook> {
        self.taken
    }
}

/// The pause after one and after a look that took so long.
fn next(pause: Duration, took: Duration) -> Duration {
    (pause * 2).min(LAST).max(took * LOOKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_take_a_hundredth_of_the_time_at_most() {
        let ms = Duration::from_millis;
        assert_eq!(next(FIRST, ms(1)), ms(200));
        assert_eq!(next(LAST, ms(1)), LAST);
        assert_eq!(next(LAST, ms(50)), ms(5000));
    }

    #[test]
    fn none_is_taken_before_it_is_due() {
        let mut watching = Watching::new(std::process::id());
        watching.look();
        assert!(watching.pause() > Duration::ZERO);
        assert!(watching.end().is_none());
    }
}
