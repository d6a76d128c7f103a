//! Asks a process, through its yard's mailbox, to shrink caches or change a tunable.
//!
//! Neighbour: [`super::mailbox`] writes the request and waits for the answer. Invariant: an invalid
//! request is rejected before anything is written.

use super::collect::{self, Collect};
use super::cpu_slabs_held;
use super::error::Error;
use super::mailbox::{self, Mailbox, get};

use super::request::{self, MailRequest, OnDeadline, RequestEnd, StopThread};
use super::target::Target;
use super::words::CacheWords;
use super::yards::{self, Unreadable};
use slabyard_abi::region::{CacheWord, Mail, Outcome, Request, TUNABLES, TunableRow, WHOLE_YARD};
use slabyard_kernels::words::is_same;
use std::time::{Duration, Instant};

/// What a process is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Everything parked is flushed, empty slabs are freed, free pages return to the kernel.
    Shrink {
        /// By name; `None` means every cache of every yard.
        cache: Option<String>,
    },
    /// Empty slabs leave CPU partial lists and end, free pages go back.
    ShrinkEmpty {
        /// By name; `None` means every cache of every yard.
        cache: Option<String>,
    },
    /// Caches with debugging look through all of their objects.
    Validate,
    /// A tunable takes a new value.
    Set {
        /// The cache, or `None` for a tunable of the whole yard.
        cache: Option<String>,
        /// Name of the tunable.
        tunable: String,
        /// Within the bounds of the tunable's row in `abi`.
        value: u64,
    },
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Done, or done in part.
    pub outcome: Outcome,
    /// The tunable's old value; of a shrink, slabs before; of a validation, what it found.
    pub old: u64,
    /// The tunable's value now; of a shrink, slabs after.
    pub new: u64,
    /// Bytes that were returned to the kernel.
    pub bytes: u64,
    /// Time that it took, in nanoseconds.
    pub took_ns: u64,
}

/// How long an answer is waited for.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// At most so long.
    pub deadline: Duration,
    /// True if the wait is to end now.
    pub stop: &'a dyn Fn() -> bool,
    /// Whether a thread that waits in a system call may be stopped, to serve.
    pub stop_thread: StopThread,
}

/// As [`ask`], but takes back what nobody did in time.
///
/// # Errors
/// As [`ask`]; [`Error::NotServed`] in place of [`Error::Queued`].
pub fn ask_within(pid: u32, ask: &RequestKind, patience: Patience<'_>) -> Result<Answer, Error> {
    sum(pid, ask, each(pid, ask, patience, OnDeadline::Withdraw)?)
}

/// As [`ask_each`], but takes back what nobody did in time.
///
/// # Errors
/// As [`ask_each`].
pub fn ask_each_within(
    pid: u32,
    ask: &RequestKind,
    patience: Patience<'_>,
) -> Result<Vec<YardAnswer>, Error> {
    each(pid, ask, patience, OnDeadline::Withdraw)
}

/// Asks, and waits for the answer until the deadline; where several yards are asked ([`ask_each`]),
/// the sum of their answers. What nobody did by then stays: the next slow path does it.
///
/// # Errors
/// As [`super::sample`]; if the request cannot be right; [`Error::Queued`] if no thread
/// took a slow path before the deadline.
pub fn ask(pid: u32, ask: &RequestKind, deadline: Duration) -> Result<Answer, Error> {
    sum(pid, ask, ask_each(pid, ask, deadline)?)
}

fn sum(pid: u32, ask: &RequestKind, asked: Vec<YardAnswer>) -> Result<Answer, Error> {
    let mut sum = None;
    let mut none = None;
    for YardAnswer { answer, .. } in asked {
        match answer {
            // Of several yards, one with debugging is enough.
            Err(why @ Error::NotDebugged { .. }) => none = Some(why),
            answer => sum = Some(plus(ask, sum, answer?)),
        }
    }
    sum.ok_or_else(|| none.unwrap_or(Error::Refused { pid }))
}

fn plus(ask: &RequestKind, sum: Option<Answer>, more: Answer) -> Answer {
    let Some(sum) = sum else { return more };
    let is_set = matches!(ask, RequestKind::Set { .. });
    // A tunable has no sum: the first yard is the largest.
    let [old, new] = [(sum.old, more.old), (sum.new, more.new)]
        .map(|(a, b)| if is_set { a } else { a.saturating_add(b) });
    Answer {
        outcome: if sum.outcome == Outcome::Done { more.outcome } else { sum.outcome },
        old,
        new,
        bytes: sum.bytes.saturating_add(more.bytes),
        took_ns: sum.took_ns.saturating_add(more.took_ns),
    }
}

/// The outcome of a request in one yard of a process.
#[derive(Debug)]
pub struct YardAnswer {
    /// How many caches the request concerned.
    pub caches: usize,
    /// What became of it.
    pub answer: Result<Answer, Error>,
}

/// Asks, and waits for each answer until the deadline has passed. What names no cache is for all
/// yards of the process, the largest first: malloc's, and those of libraries that have object
/// caches. Else for the yard that has the cache.
///
/// # Errors
/// As [`super::sample`]; if the request cannot be right.
pub fn ask_each(pid: u32, ask: &RequestKind, deadline: Duration) -> Result<Vec<YardAnswer>, Error> {
    let stop_thread = StopThread::Never;
    each(pid, ask, Patience { deadline, stop: &|| false, stop_thread }, OnDeadline::Leave)
}

fn each(
    pid: u32,
    ask: &RequestKind,
    patience: Patience<'_>,
    on_deadline: OnDeadline,
) -> Result<Vec<YardAnswer>, Error> {
    let Patience { deadline, stop, stop_thread } = patience;
    let target = Target::open(pid)?;
    let fronts = yards::fronts(&target.memory).map_err(|why| target.error(why))?;
    let mut all = Vec::new();
    let mut unknown = None;
    for front in fronts {
        let seen = collect::collect(&target.memory, &front);
        let seen = seen.map_err(|why| target.error(why.into()))?;
        let caches = caches(&seen);
        let request = match mail_request(pid, ask, &caches) {
            Err(why @ Error::UnknownCache { .. }) => {
                unknown.get_or_insert(why);
                continue;
            }
            request => request?,
        };
        let is_whole = request.words[1] == WHOLE_YARD;
        let rows = seen.rows_again;
        let mailbox = Mailbox { memory: &target.memory, front: &front, rows };
        let end = Instant::now() + deadline;
        let sent = request::send(&mailbox, &request, stop_thread, end, on_deadline, stop);
        let sent = sent.map_err(|why| target.error(why.into()));
        let answer = sent.and_then(|sent| match sent {
            RequestEnd::Withdrawn(stopped) => {
                let helper = mailbox::helper(&target.memory, &front).ok().flatten();
                Err(Error::NotServed { pid, helped: helper.is_some(), stopped })
            }
            sent => answer(pid, ask, sent),
        });
        all.push(YardAnswer { caches: if is_whole { caches.len() } else { 1 }, answer });
        if !is_whole {
            return Ok(all);
        }
    }
    match unknown {
        Some(why) => Err(why),
        None if all.is_empty() => Err(target.error(Unreadable::NoYard)),
        None => Ok(all),
    }
}

/// A cache in use, as a request names it.
struct NamedCache {
    name: String,
    number: u64,
    generation: u64,
    slot: usize,
    has_cpu_slabs: bool,
    has_sheaves: bool,
    has_arrays: bool,
}

impl NamedCache {
    fn of((number, words): (u64, CacheWords)) -> Option<NamedCache> {
        let (name, slot) = (words.name(), words.slot()?);
        let has_cpu_slabs = cpu_slabs_held::kind(&words).is_some();
        let has_arrays = cpu_slabs_held::are_arrays(&words);
        let has_sheaves = !cpu_slabs_held::are_stacks(&words) && !has_arrays;
        let generation = words.get(CacheWord::Generation);
        Some(NamedCache { name, number, generation, slot, has_cpu_slabs, has_sheaves, has_arrays })
    }

    /// What CPUs hold of the cache instead, where a tunable limits something that CPUs hold of
    /// other caches.
    fn instead(&self, tunable: &str) -> Option<&'static str> {
        let arrays_or_slabs = if self.has_arrays { "array caches" } else { "CPU slabs" };
        match tunable {
            "cpu_partial" => (!self.has_cpu_slabs).then_some("no CPU slabs"),
            "sheaf_capacity" | "barn_full" | "barn_empty" => {
                (!self.has_sheaves).then_some(arrays_or_slabs)
            }
            "limit" | "batchcount" | "sharedfactor" => {
                (!self.has_arrays).then_some("no array caches")
            }
            "min_partial" => self.has_arrays.then_some(arrays_or_slabs),
            _ => None,
        }
    }
}

fn caches(seen: &Collect) -> Vec<NamedCache> {
    let words = seen.takes.iter().map(|take| take.words[2]);
    (0..).zip(words).filter_map(NamedCache::of).collect()
}

/// A request in words of the mailbox, if it can be right.
fn mail_request(pid: u32, ask: &RequestKind, caches: &[NamedCache]) -> Result<MailRequest, Error> {
    let (what, cache, key, value) = match ask {
        RequestKind::Validate => (Request::Validate, &None, 0, 0),
        RequestKind::Shrink { cache } => (Request::Shrink, cache, 0, 0),
        RequestKind::ShrinkEmpty { cache } => (Request::ShrinkEmpty, cache, 0, 0),
        RequestKind::Set { cache, tunable, value } => {
            let row = tunable_of(tunable, cache.is_none())?;
            if !(row.least..=row.most).contains(value) {
                return Err(out_of_range(row, *value));
            }
            (Request::Set, cache, row.number, *value)
        }
    };
    let named = |name: &String| {
        let found = caches.iter().find(|cache| cache.name == *name);
        found.ok_or_else(|| Error::UnknownCache { pid, cache: name.clone() })
    };
    let found = cache.as_ref().map(named).transpose()?;
    if let (Some(cache), RequestKind::Set { tunable, .. }) = (found, ask)
        && let Some(has) = cache.instead(tunable_of(tunable, false)?.name)
    {
        let (tunable, cache) = (tunable.clone(), cache.name.clone());
        return Err(Error::OtherFront { pid, tunable, has, cache });
    }
    let (number, generation) = found.map_or((WHOLE_YARD, 0), |c| (c.number, c.generation));
    let slots = match found {
        Some(cache) => vec![cache.slot],
        None => caches.iter().map(|cache| cache.slot).collect(),
    };
    Ok(MailRequest { words: [what as u64, number, generation, key, value], slots })
}

fn tunable_of(name: &str, of_yard: bool) -> Result<&'static TunableRow, Error> {
    let here = || TUNABLES.iter().filter(|row| row.of_yard == of_yard);
    here().find(|row| is_same(row.name.as_bytes(), name.as_bytes())).ok_or_else(|| {
        Error::UnknownTunable {
            tunable: name.to_owned(),
            place: if of_yard { "of a whole yard" } else { "of a cache" },
            known: here().map(|row| row.name).collect::<Vec<_>>().join(", "),
        }
    })
}

fn out_of_range(row: &TunableRow, value: u64) -> Error {
    let tunable = row.name.to_owned();
    Error::OutOfRange { tunable, value, least: row.least, most: row.most }
}

fn answer(pid: u32, ask: &RequestKind, sent: RequestEnd) -> Result<Answer, Error> {
    let mail = match sent {
        RequestEnd::Answered(mail) => mail,
        RequestEnd::Queued => return Err(Error::Queued { pid }),
        RequestEnd::Withdrawn(stopped) => {
            return Err(Error::NotServed { pid, helped: false, stopped });
        }
        RequestEnd::UnderWay => return Err(Error::UnderWay { pid }),
        RequestEnd::Busy => return Err(Error::Busy { pid }),
    };
    let outcome = Outcome::of(get(&mail, Mail::Result)).ok_or(Error::Refused { pid })?;
    match (outcome, ask) {
        (Outcome::Done | Outcome::Asked | Outcome::Own, _) => Ok(Answer {
            outcome,
            old: get(&mail, Mail::Old),
            new: get(&mail, Mail::New),
            bytes: get(&mail, Mail::Bytes),
            took_ns: get(&mail, Mail::Nanoseconds),
        }),
        (Outcome::OutOfRange, RequestKind::Set { tunable, cache, value }) => {
            Err(out_of_range(tunable_of(tunable, cache.is_none())?, *value))
        }
        (Outcome::OutOfRange | Outcome::Unknown, RequestKind::Validate) => {
            Err(Error::NotDebugged { pid })
        }
        (Outcome::OutOfRange | Outcome::Unknown, _) => Err(Error::Refused { pid }),
    }
}
