//! Samples a process's allocations while `slabyard doctor --watch` looks at it, so that a finding can
//! name the call site.
//!
//! Neighbour: [`slabyard_observe::profile`] takes and adds up the samples. Invariant: when the watch
//! ends, by a signal too, the process samples no more.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use slabyard_abi::profile::RATE;
use slabyard_doctor::Look;
use slabyard_observe::process::profile::Session;
use slabyard_observe::profile::Collector;
use slabyard_observe::snapshot::Missing;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often samples are taken.
const PAUSE: Duration = Duration::from_millis(20);
/// A shorter watch takes more samples: it has less time for them.
const SHORT: Duration = Duration::from_secs(20);
const SHORT_RATE: u64 = RATE / 8;

/// The sampling of one watch.
#[derive(Default)]
pub struct Sampling {
    collector: Option<Collector>,
    /// Why there is no collector, or not to the end.
    why: Option<String>,
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
            Ok(session) => sampling.collector = Some(Collector::new(session, rate)),
            Err(why) => sampling.why = Some(why.to_string()),
        }
        sampling
    }

    /// Samples until a moment; false if a signal asked to stop.
    pub fn wait(&mut self, until: Instant) -> bool {
        while !self.stop.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let Some(collector) = &mut self.collector else {
                thread::sleep(left.min(Duration::from_millis(200)));
                continue;
            };
            thread::sleep(left.min(PAUSE));
            if let Err(why) = collector.collect() {
                self.why = Some(why.to_string());
                self.collector = None;
            }
        }
        false
    }

    /// Ends, and gives the last look what was sampled.
    pub fn end(mut self, last: &mut Look) {
        if let Some(collector) = &mut self.collector {
            match collector.end() {
                Ok(_) => {
                    let profile = collector.profile();
                    last.process.iter_mut().for_each(|it| it.profile = Some(profile.clone()));
                }
                Err(why) => self.why = Some(why.to_string()),
            }
        }
        let miss = |why| Missing { what: "call sites of allocations".into(), why };
        last.missing.extend(self.why.take().map(miss));
    }
}
