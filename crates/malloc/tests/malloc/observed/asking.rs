//! Requests from another process: what they change, when they are served, and which are refused.
//!
//! Neighbour: `observed.rs` starts the processes.

use super::{MODES, Target, counted, counts_of, exact};
use crate::process_runner::{LIMIT, Mode, SIGCONT};
use slabyard_abi::region::Outcome;
use slabyard_observe::process::{Answer, Error, RequestKind, ask};
use slabyard_observe::{Value, identity};
use std::time::{Duration, Instant};

fn set(cache: Option<&str>, tunable: &str, value: u64) -> RequestKind {
    RequestKind::Set { cache: cache.map(str::to_owned), tunable: tunable.to_owned(), value }
}

/// Turns of the loop, which makes up to some hundred million a second; a slow path that
/// no request causes is far more turns away.
const AT_ONCE: u64 = 2_000_000;

#[test]
fn a_loop_of_one_malloc_and_free_serves_a_shrink_at_once() {
    for mode in MODES {
        let path = format!("{}/turns.{mode:?}", env!("CARGO_TARGET_TMPDIR"));
        let counts = counts_of(&path, 1);
        let turns = || counted(&counts, 1);
        let Some(mut target) = Target::start("observed/known.c", mode, &[&path]) else { return };
        target.command("loop");
        // No page waits to be purged, which would cause slow paths, and the first frees of
        // a process, which are slow, are over.
        let end = Instant::now() + LIMIT;
        while turns() < 10 * AT_ONCE && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        for cache in [None, Some("malloc-64".to_owned())] {
            let shrink = RequestKind::Shrink { cache };
            let turns_till_served = || {
                let before = turns();
                let answer = ask(target.pid(), &shrink, LIMIT);
                let answer = answer.unwrap_or_else(|why| panic!("{mode:?}: {why}"));
                let can_stop = !mode.has_slots();
                assert_eq!(answer.outcome == Outcome::Done, can_stop, "{mode:?} {answer:?}");
                turns() - before
            };
            // While we wait for a CPU to read the answer, the loop goes on.
            let end = Instant::now() + LIMIT;
            let mut tries = (0..).map(|_| turns_till_served()).take_while(|_| Instant::now() < end);
            let fewest = tries.find(|turns| *turns < AT_ONCE);
            println!("{mode:?} {shrink:?}: served within {fewest:?} turns");
            assert!(fewest.is_some(), "{mode:?} {shrink:?}");
        }
    }
}

#[test]
fn an_idle_process_keeps_a_request_until_it_comes_by() {
    let Some(mut target) = Target::known(Mode::Rseq) else { return };
    target.command("a 20000 64");
    target.command("f 19000");
    let slabs = exact(&target.look(), "malloc-64", "slabs");
    let shrink = RequestKind::Shrink { cache: Some("malloc-64".into()) };
    let soon = Duration::from_millis(30);
    let pid = target.pid();
    let first = ask(pid, &shrink, soon);
    assert!(matches!(first, Err(Error::Queued { .. })), "{first:?}");
    assert!(first.unwrap_err().to_string().starts_with("queued"));
    // The same once more is the same request; another one is refused.
    let second = ask(pid, &shrink, soon);
    assert!(matches!(second, Err(Error::Queued { .. })), "{second:?}");
    let other = ask(pid, &set(None, "decay_ms", 9), soon);
    assert!(matches!(other, Err(Error::Busy { .. })), "{other:?}");

    target.command("f 100");
    let after = exact(&target.look(), "malloc-64", "slabs");
    assert!(after < slabs, "{slabs} slabs before, {after} after");
    assert_eq!(exact(&target.look(), "malloc-64", "parked_node"), 0);
}

/// The answer to a request to a process that gets the command `line` meanwhile.
fn served(target: &mut Target, request: RequestKind, line: &str) -> Result<Answer, Error> {
    let pid = target.pid();
    let asking = std::thread::spawn(move || ask(pid, &request, LIMIT));
    let end = Instant::now() + LIMIT;
    while !asking.is_finished() && Instant::now() < end {
        target.command(line);
        std::thread::sleep(Duration::from_millis(1));
    }
    asking.join().expect("no panic")
}

#[test]
fn tunables_change_while_it_runs_and_no_object_is_lost() {
    for mode in [Mode::Rseq, Mode::Slots] {
        let Some(mut target) = Target::known(mode) else { return };
        target.command("a 5000 200");
        let live = exact(&target.look(), "malloc-208", "live");
        let name = Some("malloc-208");
        for (tunable, field, value) in [
            ("sheaf_capacity", "sheaf_capacity", 17),
            ("min_partial", "min_partial", 3),
            ("barn_full", "barn_full_limit", 0),
            ("barn_empty", "barn_empty_limit", 1),
        ] {
            let old = exact(&target.look(), "malloc-208", field);
            let answer = served(&mut target, set(name, tunable, value), "f 1");
            let answer = answer.unwrap_or_else(|why| panic!("{mode:?} {tunable}: {why}"));
            assert_eq!((answer.old, answer.new), (old, value), "{mode:?} {tunable}");
            assert_eq!(exact(&target.look(), "malloc-208", field), value);
        }
        let answer = served(&mut target, set(None, "decay_ms", 123), "f 1").expect("served");
        assert_eq!((answer.old, answer.new), (250, 123));
        target.stop();
        let look = target.look();
        assert_eq!(look.total("decay_ms"), Some(&Value::Exact(123)));
        assert_eq!(identity::check(&look), []);
        assert!(exact(&look, "malloc-208", "live") < live);
        target.signal(SIGCONT);
        target.command("f 5000");
        assert_eq!(exact(&target.look(), "malloc-208", "live"), live - 5000);
    }
}

#[test]
fn arrays_grow_and_shrink_while_it_runs_and_no_object_is_lost() {
    for mode in [Mode::SlabRseq, Mode::SlabSlots, Mode::SlabNodes] {
        let Some(mut target) = Target::known(mode) else { return };
        target.command("a 5000 200");
        let live = exact(&target.look(), "malloc-208", "live");
        let name = Some("malloc-208");
        for (tunable, value, refused) in [
            ("batchcount", 121, true),
            ("limit", 59, true),
            ("batchcount", 20, false),
            ("limit", 20, false),
            ("sharedfactor", 0, false),
            ("limit", 1000, false),
            ("batchcount", 500, false),
            ("sharedfactor", 2, false),
        ] {
            let old = exact(&target.look(), "malloc-208", tunable);
            let answer = served(&mut target, set(name, tunable, value), "f 1");
            let new = exact(&target.look(), "malloc-208", tunable);
            if refused {
                assert!(matches!(answer, Err(Error::Refused { .. })), "{mode:?} {tunable}");
                assert_eq!(new, old);
                continue;
            }
            let answer = answer.unwrap_or_else(|why| panic!("{mode:?} {tunable}: {why}"));
            assert_eq!((answer.old, answer.new), (old, value), "{mode:?} {tunable}");
            assert_eq!(new, value);
            target.command("a 3000 200");
            target.command("f 3000");
        }
        target.stop();
        let look = target.look();
        assert_eq!(identity::check(&look), []);
        assert!(exact(&look, "malloc-208", "live") < live);
        let parked = exact(&look, "malloc-208", "parked_node");
        // Each node has a shared array, and beside it a dozen objects that wait for the other node.
        let most = if matches!(mode, Mode::SlabNodes) { 2 * (1000 + 12) } else { 1000 };
        assert!((1..=most).contains(&parked), "{mode:?}: the shared arrays have {parked}");
        target.signal(SIGCONT);
        let other = served(&mut target, set(name, "sheaf_capacity", 8), "f 1");
        let other = other.expect_err("arrays are no sheaves").to_string();
        assert!(other.contains("has array caches, and so no sheaf_capacity"), "{other}");
    }
}

#[test]
fn what_cannot_be_right_is_refused_before_it_is_asked() {
    let Some(target) = Target::known(Mode::Rseq) else { return };
    let text = |request| {
        let answer = ask(target.pid(), &request, LIMIT);
        answer.expect_err("a refusal").to_string()
    };
    let cache = Some("malloc-64");
    assert_eq!(
        text(set(cache, "sheaf_capacity", 0)),
        "sheaf_capacity cannot be 0: it goes from 1 to 1022"
    );
    let unknown = text(set(cache, "decay_ms", 1));
    assert!(unknown.starts_with("there is no tunable decay_ms of a cache; there are: sheaf_cap"));
    assert!(text(set(None, "barn_full", 1)).contains("of a whole yard; there are: decay_ms"));
    assert!(text(set(Some("malloc-65"), "barn_full", 1)).contains("has no cache malloc-65"));
    assert!(text(RequestKind::Shrink { cache: Some("dentry".into()) }).contains("slabyard list"));
    // None of them was placed, to wait there for a process that makes no calls: a request
    // finds the mailbox free.
    let placed = ask(target.pid(), &RequestKind::Shrink { cache: None }, Duration::ZERO);
    assert!(matches!(placed, Err(Error::Queued { .. })), "{placed:?}");
}
