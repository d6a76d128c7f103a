//! Samples a process's allocations while `slabyard doctor --watch` looks at it, so that a finding can
//! name the call site.
//!
//! Neighbour: [`slabyard_observe::profile`] takes and adds up the samples, on a thread of its own: a look
//! at a large process takes longer than a profile goes on without a reader. Invariant: when the watch
//! ends, by a signal too, the process samples no more.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use slabyard_abi::profile::RATE;
use slabyard_doctor::Look;
use slabyard_observe::process::Error;
use slabyard_observe::process::profile::Session;
use slabyard_observe::profile::{Collector, Profile};
use slabyard_observe::snapshot::Missing;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often samples are taken.
const PAUSE: Duration = Duration::from_millis(20);
/// A shorter watch takes more samples: it has less time for them.
const SHORT: Duration = Duration::from_secs(20);
const SHORT_RATE: u64 = RATE / 8;

/// How often a wait looks for a signal.
const SIGNAL_PAUSE: Duration = Duration::from_millis(50);

/// The sampling of one watch.
#[derive(Default)]
pub struct Sampling {
    thread: Option<JoinHandle<(Profile, Option<Error>)>>,
    /// Why there is none, or not to the end.
    why: Option<String>,
    is_over: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Sampling {
    /// Begins, where the look is at a process on Slabyard.
    pub fn start(look: &Look, watch: Duration) -> Sampling {
        let mut sampling = Sampling::default();
        let (Some(process), Some(_)) = (&look.process, &look.snapshot) else { return sampling };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            if let Err(why) = flag::register(signal, Arc::clone(&sampling.stop)) {
                sampling.why = Some(why.to_string());
                return sampling;
            }
        }
        let rate = if watch < SHORT { SHORT_RATE } else { RATE };
        match Session::begin(process.pid, rate) {
            Ok(session) => {
                let is_over = Arc::clone(&sampling.is_over);
                sampling.thread = Some(thread::spawn(move || collect(session, rate, &is_over)));
            }
            Err(why) => sampling.why = Some(why.to_string()),
        }
        sampling
    }

    /// Waits for a moment; false if a signal asked to stop.
    pub fn wait(&self, until: Instant) -> bool {
        while !self.stop.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(SIGNAL_PAUSE));
        }
        false
    }

    /// Ends, and gives the last look what was sampled.
    pub fn end(mut self, last: &mut Look) {
        if let Some((profile, failure)) = self.profile() {
            // What was sampled until the process ended is worth a word.
            if failure.is_none() || profile.samples > 0 {
                last.process.iter_mut().for_each(|it| it.profile = Some(profile.clone()));
            }
            self.why = failure.map(|why| why.to_string());
        }
        let miss = |why| Missing { what: "call sites of allocations".into(), why };
        last.missing.extend(self.why.take().map(miss));
    }

    /// What its thread found, which ends.
    fn profile(&mut self) -> Option<(Profile, Option<Error>)> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Sampling {
    fn drop(&mut self) {
        self.profile();
    }
}

/// Takes samples until it is over, or the process has ended.
fn collect(session: Session, rate: u64, is_over: &AtomicBool) -> (Profile, Option<Error>) {
    let mut collector = Collector::new(session, rate);
    let mut take = || {
        while !is_over.load(Ordering::Relaxed) {
            thread::sleep(PAUSE);
            collector.collect()?;
        }
        collector.end()
    };
    let failure = take().err();
    (collector.profile(), failure)
}
