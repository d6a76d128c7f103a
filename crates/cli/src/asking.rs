//! Shared by the commands that send a request to a process ([`crate::shrink`], [`crate::set`],
//! [`crate::validate`]): how long they wait, and how a signal ends the wait.
//!
//! Invariant: however the wait ends, none of our requests is left in the process.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use slabyard_observe::process::{
    Answer, Error, Patience, RequestKind, StopThread, YardAnswer, ask_each_within, ask_within,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How a process is waited for, as it is typed.
#[derive(Clone, Copy, clap::Args)]
pub struct Wait {
    /// Seconds to wait for a process that makes no slow path
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    timeout: Duration,
    /// Stop no thread of the program: wait for its next slow path, or its helper
    #[arg(long)]
    no_stop: bool,
}

/// A process that makes calls serves sooner, and so does a helper.
const STANDS: Duration = Duration::from_millis(60);

/// A command that asks a process: how long it waits, and whether a signal came.
pub struct RequestWait {
    deadline: Duration,
    stop_thread: StopThread,
    /// The signal that came; 0: none.
    came: Arc<AtomicUsize>,
}

impl RequestWait {
    /// Takes signals from now on, and waits at most so long for each answer.
    pub fn new(wait: Wait) -> anyhow::Result<RequestWait> {
        let came = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            flag::register_usize(signal, Arc::clone(&came), signal as usize)?;
        }
        let stopped = StopThread::AfterIdle { after: STANDS };
        let stop_thread = if wait.no_stop { StopThread::Never } else { stopped };
        Ok(RequestWait { deadline: wait.timeout, stop_thread, came })
    }

    /// The answer, or the sum of those of all yards.
    pub fn ask(&self, pid: u32, ask: &RequestKind) -> Result<Answer, Failure> {
        let stop = || self.signal().is_some();
        let answer = ask_within(pid, ask, self.patience(&stop));
        answer.map_err(|error| self.failure(error))
    }

    /// What became of the request in each yard: several libraries of a process may have one.
    pub fn ask_each(&self, pid: u32, ask: &RequestKind) -> Result<Vec<YardAnswer>, Error> {
        let stop = || self.signal().is_some();
        ask_each_within(pid, ask, self.patience(&stop))
    }

    fn patience<'a>(&self, stop: &'a dyn Fn() -> bool) -> Patience<'a> {
        Patience { deadline: self.deadline, stop, stop_thread: self.stop_thread }
    }

    /// The signal that came.
    pub fn signal(&self) -> Option<i32> {
        i32::try_from(self.came.load(Ordering::Relaxed)).ok().filter(|signal| *signal != 0)
    }

    fn failure(&self, error: Error) -> Failure {
        match (self.signal(), error) {
            (Some(signal), Error::NotServed { .. } | Error::Busy { .. }) => {
                Failure::Withdrawn(signal)
            }
            (_, error @ (Error::UnknownTunable { .. } | Error::OutOfRange { .. })) => {
                Failure::Usage(error.to_string())
            }
            (_, error) => anyhow::Error::from(error).into(),
        }
    }
}

/// A time in seconds, such as 0.5.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    seconds
        .and_then(|s| Duration::try_from_secs_f64(s).ok())
        .ok_or_else(|| "expected seconds, such as 1 or 0.5".into())
}
