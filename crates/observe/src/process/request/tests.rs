//! Requests to a made-up yard, served by a thread of the test or by no thread.

use super::*;
use crate::process::front::Front;
use crate::process::planted::{FRONT, PlantedTarget, SLOT};
use crate::process::yards;
use slabyard_abi::region::{Outcome, Request, check, row};
use std::sync::Arc;

const LONG_ENOUGH: Duration = Duration::from_secs(20);
const SHORTLY: Duration = Duration::from_millis(40);

fn at(word: Mail) -> u64 {
    FRONT + word.index() as u64 * 8
}

fn front(planted: &PlantedTarget) -> Front {
    yards::fronts(planted).expect("a yard").remove(0)
}

fn request_of(words: [u64; 5]) -> MailRequest {
    MailRequest { words, slots: vec![SLOT] }
}

fn send(planted: &PlantedTarget, request: &MailRequest, deadline: Duration) -> RequestEnd {
    let mailbox = Mailbox { memory: planted, front: &front(planted), rows: 2 };
    let end = Instant::now() + deadline;
    super::send(&mailbox, request, StopThread::Never, end, OnDeadline::Leave, &|| false)
        .expect("memory")
}

/// Serves whole requests as a yard does until it is the only one to know the yard;
/// gives what was asked.
fn server(planted: &Arc<PlantedTarget>) -> std::thread::JoinHandle<Vec<[u64; 5]>> {
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
    let planted = Arc::new(PlantedTarget::yard());
    let serving = server(&planted);
    let request = request_of([Request::Set as u64, 1, 1, 2, 40]);
    let RequestEnd::Answered(mail) = send(&planted, &request, LONG_ENOUGH) else { panic!() };
    drop(planted);
    assert_eq!(serving.join().unwrap(), [request.words]);
    let words = [Mail::Result, Mail::Old, Mail::New].map(|word| get(&mail, word));
    assert_eq!(words, [Outcome::Done as u64, 40, 41]);
}

#[test]
fn nobody_comes_by() {
    let planted = PlantedTarget::yard();
    let request = request_of([Request::Shrink as u64, 1, 1, 0, 0]);
    assert_eq!(send(&planted, &request, SHORTLY), RequestEnd::Queued);
    assert_ne!(planted.get(at(Mail::Asked)), 0);
    // The next free of this cache takes the slow path: on every row that has a stack of it.
    for row_number in [0, 1] {
        let entry = planted.get(PlantedTarget::entry(row_number, SLOT));
        assert_ne!(entry as u32, 0, "the top is as it was");
        assert_eq!(entry >> 32, 0, "the end is not");
    }
    let spare = planted.get(PlantedTarget::entry(0, SLOT + row::SPARE));
    assert_ne!(spare >> 32, 0, "nobody frees to a spare sheaf");
    // Others that want the same wait for the same; who wants something else, waits.
    assert_eq!(send(&planted, &request, SHORTLY), RequestEnd::Queued);
    let other = request_of([Request::Shrink as u64, 0, 1, 0, 0]);
    assert_eq!(send(&planted, &other, SHORTLY), RequestEnd::Busy);
    assert_eq!(planted.get(at(Mail::Cache)), 1, "the first one waits still");
}

#[test]
fn a_request_that_nobody_does_in_time_is_withdrawn() {
    let planted = PlantedTarget::yard();
    let mailbox = Mailbox { memory: &planted, front: &front(&planted), rows: 2 };
    let send = |value, deadline, stop: &dyn Fn() -> bool| {
        let request = request_of([Request::Set as u64, 1, 1, 2, value]);
        let end = Instant::now() + deadline;
        super::send(&mailbox, &request, StopThread::Never, end, OnDeadline::Withdraw, stop)
            .expect("memory")
    };
    let waits = || planted.get(at(Mail::Asked)) != planted.get(at(Mail::Answered));
    assert_eq!(send(40, SHORTLY, &|| false), RequestEnd::Withdrawn(StopOutcome::Unwanted));
    assert!(!waits(), "nothing is asked any more");
    // The next one finds no other in its way.
    assert_eq!(send(41, LONG_ENOUGH, &waits), RequestEnd::Withdrawn(StopOutcome::Unwanted));
    assert!(!waits());
}

#[test]
fn a_request_that_is_done_as_it_is_withdrawn_is_answered() {
    let planted = PlantedTarget::yard();
    let mailbox = Mailbox { memory: &planted, front: &front(&planted), rows: 2 };
    let request = request_of([Request::Set as u64, 1, 1, 2, 40]);
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
        super::send(&mailbox, &request, StopThread::Never, end, OnDeadline::Withdraw, &|| false)
            .expect("memory")
    });
    assert!(matches!(sent, RequestEnd::Answered(_)), "{sent:?}");
    assert_eq!(planted.get(at(Mail::Asked)), planted.get(at(Mail::Answered)));
}

#[test]
fn a_torn_request_is_written_over() {
    let planted = Arc::new(PlantedTarget::yard());
    planted.put(at(Mail::Asked), 99);
    planted.put(at(Mail::Check), 1);
    let serving = server(&planted);
    let request = request_of([Request::Shrink as u64, 1, 1, 0, 0]);
    assert!(matches!(send(&planted, &request, LONG_ENOUGH), RequestEnd::Answered(_)));
    drop(planted);
    assert_eq!(serving.join().unwrap(), [request.words]);
}

#[test]
fn requesters_that_write_at_once_are_all_served() {
    let planted = Arc::new(PlantedTarget::yard());
    let serving = server(&planted);
    let asking: Vec<_> = (0..6)
        .map(|value| {
            let planted = Arc::clone(&planted);
            std::thread::spawn(move || {
                send(&planted, &request_of([Request::Set as u64, 1, 1, 2, value]), LONG_ENOUGH)
            })
        })
        .collect();
    for (value, thread) in (0..).zip(asking) {
        let RequestEnd::Answered(mail) = thread.join().unwrap() else { panic!("{value} waits") };
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
