//! The client of a yard's mailbox: places a request and waits for its answer.
//!
//! The request is written into the process's memory; the next slow path of any of its
//! threads does it. So that one comes by, the `end` of the cache's entries is set to 0
//! again and again while we wait: the next free finds its sheaf full. Where the library has a
//! helper thread, that one is woken. Where nobody comes by for a while, a thread that stands still is
//! stopped and serves ([`super::outside`]), if who asks allows it.
//!
//! Neighbours: `slabyard_abi::region::Mail` says who writes what in which order;
//! [`super::ask()`] above.
//! Invariants: nothing but the mailbox, `end` and the helper's word is ever written.
//!
//! Who asks at the same time as others may find its request written over, or its answer
//! by the next one's: it asks again. Each request does the same when it is done twice.

use super::collect::has_stack;
use super::front::{Front, Top};
use super::memory::{self, Fault, Memory, Part};
use super::outside::{Offer, StopOutcome};
use super::threads::Threads;
use slabyard_abi::region::{FORGOTTEN, MAIL_AT, MAIL_WORDS, Mail, Word, check, helper, row};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What to write: the words `What`, `Cache`, `Generation`, `Key`, `Value`; and slots of the caches
/// whose frees are to come by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) words: [u64; 5],
    pub(crate) slots: Vec<usize>,
}

/// How far a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It was answered: the words of the mailbox.
    Answered([u64; NR_MAIL]),
    /// It is placed.
    Queued,
    /// It was placed, nobody did it, and it is taken back.
    Withdrawn(StopOutcome),
    /// A thread of the process that we stopped does it, and we waited for long.
    UnderWay,
    /// Another one is.
    Busy,
}

/// What becomes of a request that nobody did in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// It stays, and the next slow path does it.
    Stays,
    /// It is taken back.
    IsWithdrawn,
}

const NR_MAIL: usize = Mail::Nanoseconds.index() - MAIL_AT + 1;

/// The mailbox of a yard.
pub(crate) struct Mailbox<'a> {
    pub(crate) memory: &'a dyn Threads,
    pub(crate) front: &'a Front,
    /// Rows to nudge.
    pub(crate) rows: usize,
    /// Whether a thread that waits in a system call may be stopped.
    pub(crate) stop_thread: StopThread,
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

impl Mailbox<'_> {
    /// Places a request and waits until it was done, until `end`, or until `stop` says so.
    pub(crate) fn send(
        &self,
        letter: &Letter,
        end: Instant,
        late: Late,
        stop: &dyn Fn() -> bool,
    ) -> Result<Sent, Fault> {
        let mut pause = Pause::new();
        let mut token = None;
        let mut own = None;
        let mut stopped = StopOutcome::Unwanted;
        let mut torn: Option<(u64, Instant)> = None;
        let mut seen = (0, Instant::now());
        loop {
            let mail = self.mail()?;
            let (asked, answered) = (get(&mail, Mail::Asked), get(&mail, Mail::Answered));
            if asked != answered && is_whole(&mail) {
                torn = None;
                if seen.0 != asked {
                    seen = (asked, Instant::now());
                }
            }
            match token {
                Some(placed) if answered == placed => {
                    // The answer was there before the word that says so; of a read that
                    // caught both at once the answer may be older.
                    let again = self.mail()?;
                    if get(&again, Mail::Answered) == placed {
                        if get(&again, Mail::Result) != FORGOTTEN {
                            return Ok(Sent::Answered(again));
                        }
                        // The child of a fork took it for its parent's: it is placed anew.
                        token = None;
                        continue;
                    }
                }
                Some(token) if asked == token && is_whole(&mail) => {}
                // Somebody asked the same: the answer is ours, too.
                _ if asked != answered && is_whole(&mail) && mail[1..6] == letter.words => {
                    token = Some(asked);
                }
                // Another request waits: ours, if it was placed, was overwritten.
                _ if asked != answered && is_whole(&mail) => token = None,
                // Two requesters wrote at once. It is never done: the first to see it
                // for a while writes anew.
                _ if asked != answered && !torn_for_long(&mut torn, asked) => token = None,
                _ => {
                    let new = new_token();
                    self.place(letter.words, new)?;
                    (token, own) = (Some(new), Some(new));
                    continue;
                }
            }
            if Instant::now() >= end || stop() {
                return match (token, late) {
                    (None, _) => Ok(Sent::Busy),
                    (Some(_), Late::Stays) => Ok(Sent::Queued),
                    (Some(token), Late::IsWithdrawn) => self.withdraw(token, stopped),
                };
            }
            if pause.nudge_is_due() {
                self.nudge(&letter.slots)?;
            }
            if pause.rouse_is_due() {
                self.rouse()?;
            }
            let waits = seen.1.elapsed();
            match self.stop_thread {
                // One stops a thread: who placed the request that is there.
                StopThread::AfterIdle { after }
                    if own == Some(asked) && waits >= after && pause.stand_is_due(after) =>
                {
                    stopped = self.serve_by_stopped()?;
                    match stopped {
                        StopOutcome::Left => return Ok(Sent::UnderWay),
                        StopOutcome::Looked => continue,
                        _ => {}
                    }
                }
                // Whose it is may have ended, or stops none: it becomes ours, whatever it asks.
                StopThread::AfterIdle { after }
                    if own != Some(asked) && seen.0 == asked && waits >= after + TAKES_OVER =>
                {
                    let new = new_token();
                    self.place([mail[1], mail[2], mail[3], mail[4], mail[5]], new)?;
                    (token, own) = (token.map(|_| new), Some(new));
                }
                _ => {}
            }
            pause.rest();
        }
    }

    /// Takes a request back, unless somebody does it just now: the words of the mailbox then say that
    /// nothing is asked. Others that wait for the same place it again.
    fn withdraw(&self, token: u64, stopped: StopOutcome) -> Result<Sent, Fault> {
        let mail = self.mail()?;
        let answered = get(&mail, Mail::Answered);
        if answered == token {
            return Ok(Sent::Answered(mail));
        }
        // Another one's is none of ours to take back.
        if get(&mail, Mail::Asked) != token {
            return Ok(Sent::Withdrawn(stopped));
        }
        self.memory.write(&[self.at(Mail::Asked)], &answered.to_le_bytes())?;
        let end = Instant::now() + UNDER_WAY;
        while Instant::now() < end {
            let mail = self.mail()?;
            if get(&mail, Mail::Answered) == token {
                // Or its answer would stand there as a request.
                self.memory.write(&[self.at(Mail::Asked)], &token.to_le_bytes())?;
                return Ok(Sent::Answered(mail));
            }
            std::thread::sleep(LONG);
        }
        Ok(Sent::Withdrawn(stopped))
    }

    fn mail(&self) -> Result<[u64; NR_MAIL], Fault> {
        let part = Part { address: self.at(Mail::Asked), bytes: MAIL_WORDS.len() * 8 };
        let bytes = memory::read(self.memory, &[part])?;
        let mut mail = [0; NR_MAIL];
        mail.iter_mut().zip(memory::words(&bytes)).for_each(|(to, from)| *to = from);
        Ok(mail)
    }

    fn at(&self, word: Mail) -> u64 {
        self.front.at + (word.index() * 8) as u64
    }

    /// Writes the request, and then the word that says that it is there.
    fn place(&self, words: [u64; 5], token: u64) -> Result<(), Fault> {
        let [what, cache, generation, key, value] = words;
        let check = check([token, what, cache, generation, key, value]);
        let words = words.iter().chain([&check]);
        let bytes: Vec<u8> = words.flat_map(|w| w.to_le_bytes()).collect();
        self.memory.write(&[self.at(Mail::What)], &bytes)?;
        self.memory.write(&[self.at(Mail::Asked)], &token.to_le_bytes())
    }

    /// Wakes the process's helper, if it has one.
    fn rouse(&self) -> Result<(), Fault> {
        let Some((word, thread)) = helper(self.memory, self.front)? else { return Ok(()) };
        self.memory.write(&[word], &helper::WOKEN.to_le_bytes())?;
        self.memory.rouse(thread);
        Ok(())
    }

    /// Has a thread serve that stands still.
    fn serve_by_stopped(&self) -> Result<StopOutcome, Fault> {
        match Offer::of(self.memory, self.front)? {
            None => Ok(StopOutcome::None),
            Some(offer) => self.memory.serve_by_stopped(offer),
        }
    }

    /// Sends the next free of these caches to its slow path, on every row that has a
    /// stack. A row that is exchanged at this moment keeps its end: the next nudge
    /// finds it.
    fn nudge(&self, slots: &[usize]) -> Result<(), Fault> {
        let row_bytes = self.front.row_bytes(self.memory)?;
        let rows: Vec<Part> = self.front.rows(self.rows, row_bytes).collect();
        let bytes = memory::read(self.memory, &rows)?;
        let mut ends = Vec::new();
        let used = bytes.chunks(row_bytes).enumerate().filter(|(_, row)| has_stack(row));
        for (number, row) in used {
            for slot in slots.iter().filter(|slot| (*slot + 1) * row::ENTRY_BYTES <= row_bytes) {
                let entry = slot * row::ENTRY_BYTES;
                let stack = matches!(self.front.top(memory::half(row, entry)), Top::Stack { .. });
                if stack && memory::half(row, entry + row::END) != 0 {
                    ends.push(self.front.entry(number, *slot) + row::END as u64);
                }
            }
        }
        self.memory.write(&ends, &0u32.to_le_bytes())
    }
}

/// The helper of a yard: the address of the word that it sleeps on, and its number.
pub(crate) fn helper(memory: &dyn Memory, front: &Front) -> Result<Option<(u64, u32)>, Fault> {
    let Some(address) = front.address(Word::Helper) else { return Ok(None) };
    let bytes = memory::read(memory, &[Part { address, bytes: helper::WORDS * 4 }])?;
    let thread = memory::half(&bytes, helper::THREAD * 4);
    Ok((thread != 0).then_some((address + helper::WORD as u64 * 4, thread)))
}

/// A word of the mailbox.
pub(crate) fn get(mail: &[u64; NR_MAIL], word: Mail) -> u64 {
    mail[word.index() - MAIL_AT]
}

/// True if a request is as its requester wrote it.
fn is_whole(mail: &[u64; NR_MAIL]) -> bool {
    let [asked, what, cache, generation, key, value, sum, ..] = *mail;
    check([asked, what, cache, generation, key, value]) == sum
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
    stood: Instant,
}

impl Pause {
    fn new() -> Pause {
        let began = Instant::now();
        Pause { began, nudged: None, roused: began, stood: began }
    }

    fn rouse_is_due(&mut self) -> bool {
        let due = self.roused.elapsed() >= ROUSES;
        if due {
            self.roused = Instant::now();
        }
        due
    }

    fn stand_is_due(&mut self, after: Duration) -> bool {
        let due = self.stood.elapsed() >= after;
        if due {
            self.stood = Instant::now();
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
mod tests {
    use super::*;
    use crate::process::planted::{FRONT, Planted, SLOT};
    use crate::process::yards;
    use slabyard_abi::region::{Outcome, Request};
    use std::sync::Arc;

    const LONG_ENOUGH: Duration = Duration::from_secs(20);
    const SHORTLY: Duration = Duration::from_millis(40);

    fn at(word: Mail) -> u64 {
        FRONT + word.index() as u64 * 8
    }

    fn front(planted: &Planted) -> Front {
        yards::fronts(planted).expect("a yard").remove(0)
    }

    fn letter_of(words: [u64; 5]) -> Letter {
        Letter { words, slots: vec![SLOT] }
    }

    fn send(planted: &Planted, letter: &Letter, deadline: Duration) -> Sent {
        let mailbox = Mailbox {
            memory: planted,
            front: &front(planted),
            rows: 2,
            stop_thread: StopThread::Never,
        };
        mailbox.send(letter, Instant::now() + deadline, Late::Stays, &|| false).expect("memory")
    }

    /// Serves whole requests as a yard does until it is the only one to know the yard;
    /// gives what was asked.
    fn server(planted: &Arc<Planted>) -> std::thread::JoinHandle<Vec<[u64; 5]>> {
        let planted = Arc::clone(planted);
        std::thread::spawn(move || {
            let mut served = Vec::new();
            let end = Instant::now() + LONG_ENOUGH;
            while Arc::strong_count(&planted) > 1 && Instant::now() < end {
                let words = [Mail::What, Mail::Cache, Mail::Generation, Mail::Key, Mail::Value];
                let words = words.map(|word| planted.get(at(word)));
                let (asked, sum) = (planted.get(at(Mail::Asked)), planted.get(at(Mail::Check)));
                let [what, cache, generation, key, value] = words;
                let whole = check([asked, what, cache, generation, key, value]) == sum;
                if whole && asked != planted.get(at(Mail::Answered)) {
                    planted.put(at(Mail::Result), Outcome::Done as u64);
                    planted.put(at(Mail::Old), value);
                    planted.put(at(Mail::New), value + 1);
                    planted.put(at(Mail::Answered), asked);
                    served.push(words);
                }
                std::thread::sleep(Duration::from_micros(50));
            }
            served
        })
    }

    #[test]
    fn a_request_is_placed_whole_and_its_answer_read() {
        let planted = Arc::new(Planted::yard());
        let serving = server(&planted);
        let letter = letter_of([Request::Set as u64, 1, 1, 2, 40]);
        let Sent::Answered(mail) = send(&planted, &letter, LONG_ENOUGH) else { panic!() };
        drop(planted);
        assert_eq!(serving.join().unwrap(), [letter.words]);
        let words = [Mail::Result, Mail::Old, Mail::New].map(|word| get(&mail, word));
        assert_eq!(words, [Outcome::Done as u64, 40, 41]);
    }

    #[test]
    fn nobody_comes_by() {
        let planted = Planted::yard();
        let letter = letter_of([Request::Shrink as u64, 1, 1, 0, 0]);
        assert_eq!(send(&planted, &letter, SHORTLY), Sent::Queued);
        assert_ne!(planted.get(at(Mail::Asked)), 0);
        // The next free of this cache comes by: on every row that has a stack of it.
        for row_number in [0, 1] {
            let entry = planted.get(Planted::entry(row_number, SLOT));
            assert_ne!(entry as u32, 0, "the top is as it was");
            assert_eq!(entry >> 32, 0, "the end is not");
        }
        let spare = planted.get(Planted::entry(0, SLOT + row::SPARE));
        assert_ne!(spare >> 32, 0, "nobody frees to a spare sheaf");
        // Others that want the same wait for the same; who wants something else, waits.
        assert_eq!(send(&planted, &letter, SHORTLY), Sent::Queued);
        let other = letter_of([Request::Shrink as u64, 0, 1, 0, 0]);
        assert_eq!(send(&planted, &other, SHORTLY), Sent::Busy);
        assert_eq!(planted.get(at(Mail::Cache)), 1, "the first one waits still");
    }

    #[test]
    fn a_request_that_nobody_does_in_time_is_withdrawn() {
        let planted = Planted::yard();
        let mailbox = Mailbox {
            memory: &planted,
            front: &front(&planted),
            rows: 2,
            stop_thread: StopThread::Never,
        };
        let send = |value, deadline, stop: &dyn Fn() -> bool| {
            let letter = letter_of([Request::Set as u64, 1, 1, 2, value]);
            mailbox
                .send(&letter, Instant::now() + deadline, Late::IsWithdrawn, stop)
                .expect("memory")
        };
        let waits = || planted.get(at(Mail::Asked)) != planted.get(at(Mail::Answered));
        assert_eq!(send(40, SHORTLY, &|| false), Sent::Withdrawn(StopOutcome::Unwanted));
        assert!(!waits(), "nothing is asked any more");
        // The next one finds no other in its way.
        assert_eq!(send(41, LONG_ENOUGH, &waits), Sent::Withdrawn(StopOutcome::Unwanted));
        assert!(!waits());
    }

    #[test]
    fn a_request_that_is_done_as_it_is_withdrawn_is_answered() {
        let planted = Planted::yard();
        let mailbox = Mailbox {
            memory: &planted,
            front: &front(&planted),
            rows: 2,
            stop_thread: StopThread::Never,
        };
        let letter = letter_of([Request::Set as u64, 1, 1, 2, 40]);
        let sent = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (asked, answered) = (at(Mail::Asked), at(Mail::Answered));
                let begun = loop {
                    match planted.get(asked) {
                        0 => std::thread::sleep(SHORT),
                        token => break token,
                    }
                };
                // Taken back meanwhile.
                while planted.get(asked) == begun {
                    std::thread::sleep(SHORT);
                }
                planted.put(answered, begun);
            });
            let end = Instant::now() + SHORTLY;
            mailbox.send(&letter, end, Late::IsWithdrawn, &|| false).expect("memory")
        });
        assert!(matches!(sent, Sent::Answered(_)), "{sent:?}");
        assert_eq!(planted.get(at(Mail::Asked)), planted.get(at(Mail::Answered)));
    }

    #[test]
    fn a_torn_request_is_written_over() {
        let planted = Arc::new(Planted::yard());
        planted.put(at(Mail::Asked), 99);
        planted.put(at(Mail::Check), 1);
        let serving = server(&planted);
        let letter = letter_of([Request::Shrink as u64, 1, 1, 0, 0]);
        assert!(matches!(send(&planted, &letter, LONG_ENOUGH), Sent::Answered(_)));
        drop(planted);
        assert_eq!(serving.join().unwrap(), [letter.words]);
    }

    #[test]
    fn requesters_that_write_at_once_are_all_served() {
        let planted = Arc::new(Planted::yard());
        let serving = server(&planted);
        let asking: Vec<_> = (0..6)
            .map(|value| {
                let planted = Arc::clone(&planted);
                std::thread::spawn(move || {
                    send(&planted, &letter_of([Request::Set as u64, 1, 1, 2, value]), LONG_ENOUGH)
                })
            })
            .collect();
        for (value, thread) in (0..).zip(asking) {
            let Sent::Answered(mail) = thread.join().unwrap() else { panic!("{value} waits") };
            // Of an answer that another one followed at once, the later may be read.
            assert_eq!(get(&mail, Mail::New), get(&mail, Mail::Old) + 1);
        }
        drop(planted);
        let served = serving.join().unwrap();
        assert!((0..6).all(|value| served.iter().any(|words| words[4] == value)), "{served:?}");
    }

    #[test]
    fn tokens_differ_and_are_never_0() {
        let tokens: std::collections::BTreeSet<_> = (0..1000).map(|_| new_token()).collect();
        assert_eq!(tokens.len(), 1000);
        assert!(!tokens.contains(&0));
    }
}
