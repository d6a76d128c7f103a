//! Takes the samples of a program that `slabyard run --profile` starts, from its start to its end.
//!
//! Invariant: the program waits for us at its end, for as long as we look; whatever becomes of the
//! profile, the program's exit code is passed on.

use super::written;
use crate::stderr::say;
use slabyard_observe::process::profile::Session;
use slabyard_observe::profile::{Collector, Profile};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often a program that has just started, or begins another program, is looked for.
const START: Duration = Duration::from_millis(1);
const PAUSE: Duration = Duration::from_millis(10);

/// A thread that takes samples.
pub struct Attended {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Option<Profile>>,
}

impl Attended {
    /// Begins as the program does.
    pub fn begin(pid: u32, rate: u64) -> Attended {
        let ended = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ended);
        let thread = thread::spawn(move || attend(pid, rate, &is_over));
        Attended { ended, thread }
    }

    /// The program has ended: writes what was found.
    pub fn end(self, path: &Path) {
        self.ended.store(true, Ordering::Relaxed);
        let Some(profile) = self.thread.join().ok().flatten() else {
            return say("no profile: the program did not run on Slabyard, or took no samples");
        };
        if let Err(failure) = written::pprof(&profile, path) {
            return say(&format!("{failure:#}"));
        }
        written::doubt(&profile);
        say(&format!("{}: {}", path.display(), super::sum_of(&profile)));
    }
}

/// Takes samples until the program ends. One that begins another program begins another profile,
/// and the last that had samples counts.
fn attend(pid: u32, rate: u64, is_over: &AtomicBool) -> Option<Profile> {
    let mut last = None;
    while !is_over.load(Ordering::Relaxed) {
        let Ok(session) = Session::join(pid) else {
            thread::sleep(START);
            continue;
        };
        let mut collector = Collector::new(session, rate);
        while collector.collect().is_ok() && !is_over.load(Ordering::Relaxed) {
            thread::sleep(if collector.has_samples() { PAUSE } else { START });
        }
        if collector.has_samples() {
            last = Some(collector.profile());
        }
    }
    last
}
