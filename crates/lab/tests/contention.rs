//! CPUs that overlap in time, on a trace with multiplied tasks: checks what the series "slub: Delay
//! freezing of CPU partial slabs" says of eager and delayed freezing.
//!
//! `cargo test --profile checked -p slabyard-lab --test lab contention:: -- --nocapture` prints the
//! numbers.

use super::recorded::recorded;
use slabyard_lab::case::{self, Case};
use slabyard_lab::replay::contend::{COSTS, Contended, Costs, Counts, contend};
use slabyard_lab::replay::events::{Event, MachineEvent};
use slabyard_lab::replay::{Plan, Start, replay};
use slabyard_lab::rules::{Freezing, Settings, find_release};
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_lab::trace::START;
use slabyard_model::counters::Counter;
use std::path::Path;

fn case(release: &str, cpus: u32, change: impl Fn(&mut Settings)) -> Case {
    case_of("hackbench", release, cpus, change)
}

fn case_of(name: &str, release: &str, cpus: u32, change: impl Fn(&mut Settings)) -> Case {
    let (trace, snapshot) = recorded(name);
    let mut machine = snapshot.settings().expect("a known kernel").0.machine;
    (machine.online_cpus, machine.present_cpus, machine.possible_cpus) = (cpus, cpus, cpus);
    let mut settings = Settings::new(find_release(release).expect("a release").0, machine);
    change(&mut settings);
    Case::new(trace, snapshot, &settings, case::order_of(snapshot)).expect("a case")
}

fn run(case: &Case, tasks: u32) -> Contended {
    let mut plan = case.plan(Start::LookAhead);
    plan.tasks = tasks;
    // The load's first part: each run takes its time.
    plan.steps = Some(case.prepared.steps.len() / 4);
    contend(&plan, COSTS)
}

fn frozen(release: &str, cpus: u32, freezing: Freezing) -> Contended {
    run(&case(release, cpus, |settings| settings.freezing = Some(freezing)), cpus / 2)
}

/// What the series says of eager freezing beside delayed; returns the part of all calls' time that
/// eager freezing waits.
fn follows_the_series(cpus: u32, eager: &Counts, delayed: &Counts) -> Result<f64, &'static str> {
    let times = |of: u64, to: u64| of as f64 / to.max(1) as f64;
    // Two CPUs meet a few times only.
    let longer = if cpus > 2 { 1.5 } else { 1.0 };
    let claims = [
        (times(eager.wait_ns, delayed.wait_ns) > longer, "it waits longer"),
        (times(eager.held_ns, delayed.held_ns) > 1.5, "it holds locks longer"),
        (eager.exchanges > delayed.exchanges + delayed.exchanges / 20, "it exchanges more often"),
        ((delayed.breaks, delayed.failed_under_lock) == (0, 0), "delayed never fails under a lock"),
    ];
    match claims.iter().find(|(holds, _)| !holds) {
        None => Ok(times(eager.wait_ns, eager.call_ns)),
        Some((_, claim)) => Err(claim),
    }
}

#[test]
fn eager_freezing_makes_more_cpus_wait_longer_for_list_locks() {
    let mut before = 0.0;
    for cpus in [2, 8, 32] {
        let eager = frozen("6.1", cpus, Freezing::Eager).counts;
        let delayed = frozen("6.1", cpus, Freezing::Delayed).counts;
        println!("{cpus} CPUs: eager {eager:?}\n  delayed {delayed:?}");
        let share = follows_the_series(cpus, &eager, &delayed).unwrap();
        if cpus == 8 {
            find_what_is_planted(&eager, &delayed);
        }
        // Of the time of all calls a larger part, the more CPUs there are.
        assert!(share > 2.0 * before, "{share} after {before}");
        before = share;
    }
}

/// Each claim fails on counts one of which is wrong.
fn find_what_is_planted(eager: &Counts, delayed: &Counts) {
    let planted = [
        (Counts { wait_ns: 0, ..*eager }, *delayed, "it waits longer"),
        (Counts { held_ns: delayed.held_ns, ..*eager }, *delayed, "it holds locks longer"),
        (Counts { exchanges: delayed.exchanges, ..*eager }, *delayed, "it exchanges more often"),
        (*eager, Counts { breaks: 1, ..*delayed }, "delayed never fails under a lock"),
    ];
    for (eager, delayed, claim) in planted {
        assert_eq!(follows_the_series(8, &eager, &delayed), Err(claim));
    }
    assert!(
        follows_the_series(8, delayed, delayed).is_err()
            && follows_the_series(8, delayed, eager).is_err()
    );
}

#[test]
fn lists_are_left_where_their_first_slab_is_contended() {
    let eager = frozen("5.9", 32, Freezing::Eager);
    println!("{:?}", eager.counts);
    assert!(eager.counts.breaks > 0);
    assert!(eager.counts.failed_under_lock >= eager.counts.breaks);
}

/// Calls a second of `loads/bios.toml`, where a line takes 100 ns from one CPU to another.
fn bios(release: &str, nowait_refills: bool) -> f64 {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("loads/bios.toml");
    let trace = slabyard_lab::import::open(&file).expect("a load");
    let start = &trace.attachment(START).expect("its caches").bytes;
    let snapshot = KernelSnapshot::parse(start).expect("a snapshot").remove(0);
    let machine = snapshot.machine().expect("its machine");
    let mut settings = Settings::new(find_release(release).expect("a release").0, machine);
    settings.nowait_refills = nowait_refills;
    let case = Case::new(&trace, &snapshot, &settings, case::order_of(&snapshot)).expect("a case");
    let costs = Costs { lock_moved: 100, exchange_moved: 100, ..COSTS };
    let done = contend(&case.plan(Start::LookAhead), costs);
    let per_second = done.counts.calls as f64 * 1e9 / done.span_ns as f64;
    println!("{release}, refills {nowait_refills}: {per_second:.0} calls/s, {:?}", done.counts);
    per_second
}

/// The loss of 64 % reported in February 2026, between 6.19 and 7.0-rc1; 7.0-rc3 refills for these
/// callers, 7.1 has barns on nodes without memory.
#[test]
fn bios_freed_elsewhere_lose_speed_where_nodes_without_memory_have_no_barns() {
    let barns = bios("7.1", true);
    assert!((0.5..0.75).contains(&(1.0 - bios("7.0", false) / barns)));
    assert!((0.45..0.7).contains(&(1.0 - bios("7.0", true) / barns)));
    assert!(bios("6.18", true) > 0.99 * barns);
}

#[test]
fn caches_are_shrunk_while_cpus_overlap() {
    let mut case = case("7.1", 2, |_| ());
    let slabs = run(&case, 1).slabs;
    let last = *case.prepared.span.end() - *case.prepared.span.start();
    let shrinks = (1..100).map(|nth| Event { at_ns: last * nth / 400, what: MachineEvent::Shrink });
    case.happens(shrinks.collect()).expect("they can happen");
    let shrunk = run(&case, 1).slabs;
    assert!(shrunk < slabs, "{shrunk} of {slabs}");
}

#[test]
fn one_cpu_waits_for_nobody_and_the_same_run_is_the_same() {
    let one = case("6.1", 1, |_| ());
    let done = run(&one, 1);
    assert!(done.counts.locks > 0);
    assert_eq!((done.counts.failed, done.counts.waited, done.counts.wait_ns), (0, 0, 0));
    let two = case("6.1", 2, |_| ());
    assert_eq!(run(&two, 4).caches, run(&two, 4).caches);
}

/// What is counted beside the overlap is what a replay counts in which nothing overlaps.
#[test]
fn where_no_list_is_left_calls_do_what_they_do_one_at_a_time() {
    let overlapped = equal(&case("6.18", 2, |_| ()));
    let exchanged = overlapped.counts.exchanges - overlapped.counts.failed;
    assert_eq!(exchanged, overlapped.counters.get(Counter::CmpxchgSlab));
    // With sheaves that wait for readers.
    equal(&case_of("forkexec", "7.1", 2, |_| ()));
}

fn equal(case: &Case) -> Contended {
    let overlapped = run(case, 1);
    let mut plan = case.plan(Start::LookAhead);
    plan.steps = Some(case.prepared.steps.len() / 4);
    let alone = replay(&Plan { tasks: 1, ..plan }).expect("sound books");
    for counter in [Counter::AllocSlab, Counter::FreeSlab, Counter::ListLock, Counter::CmpxchgSlab]
    {
        let sum = |caches: &[slabyard_model::cache::KernelCache]| {
            caches.iter().map(|cache| cache.counters().get(counter)).sum::<u64>()
        };
        assert_eq!(overlapped.counters.get(counter), sum(&alone.caches), "{counter:?}");
    }
    assert_eq!(overlapped.counts.locks, overlapped.counters.get(Counter::ListLock));
    overlapped
}

#[test]
fn tiny_waits_for_its_locks_and_exchanges_nothing() {
    let tiny = run(&case("6.8", 8, |settings| settings.set("tiny=1").unwrap()), 4);
    let slub = frozen("6.8", 8, Freezing::Delayed);
    println!("tiny {:?}\nslub {:?}", tiny.counts, slub.counts);
    assert_eq!((tiny.counts.exchanges, tiny.counts.failed), (0, 0));
    assert!(tiny.counts.wait_ns > 20 * slub.counts.wait_ns);
}
