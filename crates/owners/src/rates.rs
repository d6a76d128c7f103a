//! Who allocates and frees how much a second, looked at as long as somebody asks.
//!
//! Neighbours: [`crate::bpf`] counts in the kernel, [`crate::naming`] names. A thread of its own has
//! the session, so that the sample follows the load however seldom somebody looks. Invariant: the
//! programs take half of the budget and reading their tables the other half. Where the look at each
//! event alone takes more, the programs pause between short times of counting; a look that would take
//! more returns what the one before returned.

use crate::bpf::{Counted, Session, Stacks, thread_time};
use crate::naming::{self, Names};
use crate::report::{Activity, Lacking};
use crate::{LOOKS, cgroups, mounts, processes};
use slabyard_observe::kernel::Symbols;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Directories of cgroups are read again at most so often.
const CGROUPS: Duration = Duration::from_secs(5);
/// The longest pause, and the shortest time that a rate is of.
const PAUSE: Duration = Duration::from_secs(10);
const LEAST: Duration = Duration::from_millis(20);
/// Sites whose processes are looked up; those that follow have the name of their task.
const LOOKED_UP: usize = 200;

/// Counts as long as it lives.
#[derive(Debug)]
pub struct Rates {
    asks: SyncSender<()>,
    answers: Receiver<Result<Activity, String>>,
}

impl Rates {
    /// Starts the programs, which take this share of one CPU at most, with reading what they count.
    ///
    /// # Errors
    /// Why the kernel lets nobody count, and what that would add.
    pub fn start(budget: f64) -> Result<Rates, Lacking> {
        let (asks, asked) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        let (start, started) = sync_channel(1);
        thread::spawn(move || {
            // Before the session, which measures what the thread takes from then on.
            let symbols = Symbols::of_kernel();
            match Session::start(budget / 2.0, Stacks::LeftOut) {
                Ok(session) => {
                    let _ = start.send(Ok(()));
                    Counting::new(session, symbols, budget).run(&asked, &answer);
                }
                Err(why) => drop(start.send(Err(why))),
            }
        });
        let lacking = |why| Lacking {
            what: "BPF programs on the kernel's tracepoints".into(),
            why,
            adds: "who allocates and frees how much a second, by cache, call site and process"
                .into(),
        };
        match started.recv() {
            Ok(Ok(())) => Ok(Rates { asks, answers }),
            Ok(Err(why)) => Err(lacking(why)),
            Err(_) => Err(lacking("the thread that counts ended".into())),
        }
    }

    /// What was allocated and freed since the last look.
    ///
    /// # Errors
    /// The tables of the programs cannot be read, and why.
    pub fn look(&mut self) -> Result<Activity, String> {
        let ended = "the thread that counts ended";
        self.asks.send(()).map_err(|_| ended.to_owned())?;
        self.answers.recv().map_err(|_| ended.to_owned())?
    }
}

/// What the thread has.
struct Counting {
    session: Session,
    names: Names,
    counted: Counted,
    last: Activity,
    budget: f64,
    start: Instant,
    /// When the tables were read last, and what that took.
    read_at: Instant,
    reading: Duration,
    cgroups_at: Option<Instant>,
    /// Since when the programs count; none in a pause, and then its end.
    counting_since: Option<Instant>,
    resume_at: Instant,
    /// How long they counted since the last read, without what is going on.
    counted_for: Duration,
}

impl Counting {
    fn new(session: Session, symbols: Symbols, budget: f64) -> Counting {
        let names = Names {
            symbols,
            processes: processes::Processes::default(),
            cgroups: cgroups::Cgroups::of_kernel(),
            mounts: mounts::Mounts::default(),
        };
        let start = Instant::now();
        Counting {
            session,
            names,
            counted: Counted::default(),
            last: Activity::default(),
            budget,
            start,
            read_at: start,
            reading: Duration::ZERO,
            cgroups_at: None,
            counting_since: Some(start),
            resume_at: start,
            counted_for: Duration::ZERO,
        }
    }

    /// Until nobody can ask any more.
    fn run(mut self, asked: &Receiver<()>, answers: &SyncSender<Result<Activity, String>>) {
        let mut adapted = Instant::now();
        loop {
            match asked.recv_timeout(LOOKS) {
                Ok(()) => {
                    let found = self.look();
                    if answers.send(found).is_err() {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if adapted.elapsed() >= LOOKS {
                self.adapt();
                adapted = Instant::now();
            }
        }
    }

    /// Keeps to the budget. What cannot be paused or resumed is tried again.
    fn adapt(&mut self) {
        let Some(since) = self.counting_since else {
            if Instant::now() >= self.resume_at && self.session.resume().is_ok() {
                self.counting_since = Some(Instant::now());
            }
            return;
        };
        let Some(times) = self.session.adapt() else { return };
        if self.session.pause().is_ok() {
            let counted = since.elapsed();
            self.counted_for += counted.min(self.read_at.elapsed());
            self.counting_since = None;
            self.resume_at = Instant::now() + counted.mul_f64(times - 1.0).min(PAUSE);
        }
    }

    /// How long the programs counted since the last read.
    fn counted_for(&self) -> Duration {
        let now = self.counting_since.map_or(Duration::ZERO, |since| since.elapsed());
        self.counted_for + now.min(self.read_at.elapsed())
    }

    fn look(&mut self) -> Result<Activity, String> {
        let (since, counted) = (self.read_at.elapsed(), self.counted_for());
        let too_much = self.reading.as_secs_f64() > since.as_secs_f64() * self.budget / 2.0;
        if too_much || counted < LEAST {
            return Ok(self.last.clone());
        }
        let before = thread_time();
        let raw = self.session.since(&mut self.counted)?;
        self.read_at = Instant::now();
        self.counted_for = Duration::ZERO;
        let mut busiest: Vec<(u64, u32)> =
            raw.origins.iter().map(|origin| (origin.allocations, origin.tgid)).collect();
        busiest.sort_unstable_by(|a, b| b.cmp(a));
        self.names.processes.look(busiest.iter().take(LOOKED_UP).map(|(_, tgid)| *tgid));
        if self.cgroups_at.is_none_or(|at| at.elapsed() >= CGROUPS) {
            self.names.cgroups.look();
            self.cgroups_at = Some(Instant::now());
        }
        let nanoseconds = |time: Duration| time.as_nanos() as u64;
        self.last = naming::activity(
            &raw,
            &self.names,
            (nanoseconds(counted), counted.as_secs_f64() / since.as_secs_f64()),
            nanoseconds(self.start.elapsed()),
            self.budget,
        );
        self.reading = thread_time() - before;
        Ok(self.last.clone())
    }
}
