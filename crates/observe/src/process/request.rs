//! A request in progress: this module places it in a yard's mailbox and waits for the answer.
//!
//! The next slow path of any thread of the process serves it. To provoke a slow path soon, this
//! module repeatedly sets `end` of the cache's entries to 0, so that the next free finds its sheaf
//! full. If the library has a helper thread, that thread is woken. If no thread serves the request
//! for a while and the requester allows it, a thread that waits in a system call is stopped and
//! serves it ([`super::outside`]).
//!
//! If several processes make requests at once, one may overwrite another's request or answer; the
//! process whose request was lost asks again. Serving a request twice has the same effect as
//! serving it once.
//!
//! Neighbours: [`super::mailbox`] reads and writes the words; [`super::ask()`] makes the requests.

use super::mailbox::{Mailbox, Mails, get, is_whole};
use super::memory::Fault;
use super::outside::StopOutcome;
use slabyard_abi::region::{FORGOTTEN, Mail};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A request: the words `What`, `Cache`, `Generation`, `Key`, `Value`; and slots of the caches whose
/// next frees are to take the slow path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MailRequest {
    pub(crate) words: [u64; 5],
    pub(crate) slots: Vec<usize>,
}

/// How the wait for an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestEnd {
    /// It was answered: the words of the mailbox.
    Answered(Mails),
    /// It was placed and not done: it stays in the mailbox.
    Queued,
    /// It was placed, nobody did it, and it is taken back.
    Withdrawn(StopOutcome),
    /// A thread of the process that we stopped does it, and we waited for long.
    UnderWay,
    /// It was not placed: another one's is in the mailbox.
    Busy,
}

/// What becomes of a request that nobody did in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDeadline {
    /// It stays, and the next slow path does it.
    Leave,
    /// It is taken back.
    Withdraw,
}

/// Whether a thread that waits in a system call may be stopped, to serve the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopThread {
    /// It may, if the program's own calls and a helper did not serve the request for so long.
    AfterIdle {
        /// Until the first try, and from one to the next.
        after: Duration,
    },
    /// No thread is stopped but the library's own.
    Never,
}

/// First pause between two looks for the answer; after a while, a longer one.
const SHORT: Duration = Duration::from_micros(200);
const LONG: Duration = Duration::from_millis(1);
const SHORT_FOR: Duration = Duration::from_millis(10);
/// A requester needs microseconds from its first word to its last.
const TORN_FOR: Duration = Duration::from_millis(20);
/// A slow path that has begun a request is waited for so long before the request counts as withdrawn.
const UNDER_WAY: Duration = Duration::from_millis(100);
/// Pause between two nudges.
const NUDGES: Duration = Duration::from_millis(2);
/// A process that runs serves a request sooner than its helper is woken; and the pause until the helper
/// is woken again, which may have found the yard's lock taken.
const ROUSES: Duration = Duration::from_millis(20);
/// Who placed a request stops a thread so much sooner than others would.
const TAKES_OVER: Duration = Duration::from_millis(100);

/// Sends a request, and waits until it was done, until `end`, or until `stop` says so.
pub(crate) fn send(
    mailbox: &Mailbox<'_>,
    request: &MailRequest,
    stop_thread: StopThread,
    end: Instant,
    on_deadline: OnDeadline,
    stop: &dyn Fn() -> bool,
) -> Result<RequestEnd, Fault> {
    let mut waiting = RequestState::new(mailbox, request.words, stop_thread);
    loop {
        let mail = match waiting.look()? {
            MailboxState::Answered(mail) => return Ok(RequestEnd::Answered(mail)),
            MailboxState::Again => continue,
            MailboxState::Waits(mail) => mail,
        };
        if Instant::now() >= end || stop() {
            return waiting.give_up(on_deadline);
        }
        if waiting.pause.nudge_is_due() {
            mailbox.nudge(&request.slots)?;
        }
        if waiting.pause.rouse_is_due() {
            mailbox.rouse()?;
        }
        match waiting.stop_a_thread(&mail)? {
            Some(StopOutcome::Left) => return Ok(RequestEnd::UnderWay),
            Some(StopOutcome::Looked) => continue,
            _ => waiting.pause.rest(),
        }
    }
}

/// What is known of our request between two reads of the mailbox.
struct RequestState<'a> {
    mailbox: &'a Mailbox<'a>,
    words: [u64; 5],
    stop_thread: StopThread,
    /// The token of the request whose answer is ours; `None` while ours is not placed.
    token: Option<u64>,
    /// The token of the request that we placed ourselves.
    own: Option<u64>,
    /// What came of the last attempt to stop a thread.
    stopped: StopOutcome,
    /// A request that two wrote at once, and since when we see it.
    torn: Option<(u64, Instant)>,
    /// The request that is in the mailbox, and since when we see it.
    seen: (u64, Instant),
    pause: Pause,
}

/// What a read of the mailbox found.
enum MailboxState {
    /// The request was done: the words of the mailbox.
    Answered(Mails),
    /// The request was placed, or has to be: read again at once.
    Again,
    /// A request waits there, ours or another one's.
    Waits(Mails),
}

impl<'a> RequestState<'a> {
    fn new(mailbox: &'a Mailbox<'a>, words: [u64; 5], stop_thread: StopThread) -> RequestState<'a> {
        RequestState {
            mailbox,
            words,
            stop_thread,
            token: None,
            own: None,
            stopped: StopOutcome::Unwanted,
            torn: None,
            seen: (0, Instant::now()),
            pause: Pause::new(),
        }
    }

    /// Looks for the answer, and places the request where none is in its way.
    fn look(&mut self) -> Result<MailboxState, Fault> {
        let mail = self.mailbox.read()?;
        let (asked, answered) = (get(&mail, Mail::Asked), get(&mail, Mail::Answered));
        let (waits, whole) = (asked != answered, is_whole(&mail));
        if waits && whole {
            self.torn = None;
            if self.seen.0 != asked {
                self.seen = (asked, Instant::now());
            }
        }
        match self.token {
            Some(placed) if answered == placed => return self.answer(placed, mail),
            Some(token) if asked == token && whole => {}
            // Somebody asked the same: the answer is ours, too. Or another request waits: ours, if
            // it was placed, was overwritten.
            _ if waits && whole => self.token = (mail[1..6] == self.words).then_some(asked),
            // Two requesters wrote at once. It is never done: the first to see it
            // for a while writes anew.
            _ if waits && !torn_for_long(&mut self.torn, asked) => self.token = None,
            _ => {
                let new = new_token();
                self.mailbox.place(self.words, new)?;
                (self.token, self.own) = (Some(new), Some(new));
                return Ok(MailboxState::Again);
            }
        }
        Ok(MailboxState::Waits(mail))
    }

    /// The answer is written before the word that says so; a read that caught both at once may have
    /// an older answer.
    fn answer(&mut self, placed: u64, mail: Mails) -> Result<MailboxState, Fault> {
        let again = self.mailbox.read()?;
        if get(&again, Mail::Answered) != placed {
            return Ok(MailboxState::Waits(mail));
        }
        if get(&again, Mail::Result) != FORGOTTEN {
            return Ok(MailboxState::Answered(again));
        }
        // The child of a fork took it for its parent's: it is placed anew.
        self.token = None;
        Ok(MailboxState::Again)
    }

    /// Has a thread stopped, if that is allowed and nobody has served for so long.
    fn stop_a_thread(&mut self, mail: &Mails) -> Result<Option<StopOutcome>, Fault> {
        let StopThread::AfterIdle { after } = self.stop_thread else { return Ok(None) };
        let asked = get(mail, Mail::Asked);
        let waits = self.seen.1.elapsed();
        // One stops a thread: who placed the request that is there.
        if self.own == Some(asked) {
            if waits >= after && self.pause.stop_is_due(after) {
                self.stopped = self.mailbox.serve_by_stopped()?;
                return Ok(Some(self.stopped));
            }
        } else if self.seen.0 == asked && waits >= after + TAKES_OVER {
            // Whose it is may have ended, or stops none: it becomes ours, whatever it asks.
            let new = new_token();
            self.mailbox.place([mail[1], mail[2], mail[3], mail[4], mail[5]], new)?;
            (self.token, self.own) = (self.token.map(|_| new), Some(new));
        }
        Ok(None)
    }

    /// The wait ends without an answer.
    fn give_up(self, on_deadline: OnDeadline) -> Result<RequestEnd, Fault> {
        match (self.token, on_deadline) {
            (None, _) => Ok(RequestEnd::Busy),
            (Some(_), OnDeadline::Leave) => Ok(RequestEnd::Queued),
            (Some(token), OnDeadline::Withdraw) => self.withdraw(token),
        }
    }

    /// Takes a request back, unless somebody does it just now: the words of the mailbox then say that
    /// nothing is asked. Others that wait for the same place it again.
    fn withdraw(self, token: u64) -> Result<RequestEnd, Fault> {
        let (mailbox, stopped) = (self.mailbox, self.stopped);
        let mail = mailbox.read()?;
        let answered = get(&mail, Mail::Answered);
        if answered == token {
            return Ok(RequestEnd::Answered(mail));
        }
        // Another one's is none of ours to take back.
        if get(&mail, Mail::Asked) != token {
            return Ok(RequestEnd::Withdrawn(stopped));
        }
        mailbox.write_asked(answered)?;
        let end = Instant::now() + UNDER_WAY;
        while Instant::now() < end {
            let mail = mailbox.read()?;
            if get(&mail, Mail::Answered) == token {
                // Or its answer would stand there as a request.
                mailbox.write_asked(token)?;
                return Ok(RequestEnd::Answered(mail));
            }
            std::thread::sleep(LONG);
        }
        Ok(RequestEnd::Withdrawn(stopped))
    }
}

/// True if the same torn request was seen for so long that nobody is at it any more.
fn torn_for_long(torn: &mut Option<(u64, Instant)>, asked: u64) -> bool {
    match torn {
        Some((seen, since)) if *seen == asked => since.elapsed() >= TORN_FOR,
        _ => {
            *torn = Some((asked, Instant::now()));
            false
        }
    }
}

/// When to look again, and when to nudge.
struct Pause {
    began: Instant,
    nudged: Option<Instant>,
    roused: Instant,
    stopped: Instant,
}

impl Pause {
    fn new() -> Pause {
        let began = Instant::now();
        Pause { began, nudged: None, roused: began, stopped: began }
    }

    fn rouse_is_due(&mut self) -> bool {
        let due = self.roused.elapsed() >= ROUSES;
        if due {
            self.roused = Instant::now();
        }
        due
    }

    fn stop_is_due(&mut self, after: Duration) -> bool {
        let due = self.stopped.elapsed() >= after;
        if due {
            self.stopped = Instant::now();
        }
        due
    }

    fn nudge_is_due(&mut self) -> bool {
        let due = self.nudged.is_none_or(|at| at.elapsed() >= NUDGES);
        if due {
            self.nudged = Some(Instant::now());
        }
        due
    }

    fn rest(&self) {
        std::thread::sleep(if self.began.elapsed() < SHORT_FOR { SHORT } else { LONG });
    }
}

/// A token that no other request has: not 0.
fn new_token() -> u64 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed).wrapping_shl(24);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.subsec_nanos());
    u64::from(std::process::id()) << 32 | u64::from(time ^ count)
}

#[cfg(test)]
mod tests;
