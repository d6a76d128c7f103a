//! Compares the model with traces of three real kernels, and checks that wrong models are found.
//!
//! `cargo test --release -p slabyard-lab --test lab check:: -- --nocapture` prints the numbers.

use crate::recorded::recorded;
use slabyard_lab::case::{self, Case};
use slabyard_lab::check::goals::{Context, Goal, TraceOrigin, goals};
use slabyard_lab::check::{Report, Spread, check};
use slabyard_lab::event::EventKind;
use slabyard_lab::prepare::{Order, StepKind};
use slabyard_lab::replay::{Plan, Start, replay};
use slabyard_lab::rules::{Machine, Settings};
use slabyard_model::cache::{Planted, Rules};

const TRACES: [&str; 3] = ["forkexec", "hackbench", "tr64k_hb_smp4"];

fn case_of(name: &str) -> Case {
    let (trace, snapshot) = recorded(name);
    let (settings, _) = snapshot.settings().expect("a known kernel");
    Case::new(trace, snapshot, &settings, case::order_of(snapshot)).expect("a case")
}

fn judge(case: &Case, report: &Report, start: Start) -> Vec<Goal> {
    let traced = if case.page_size > 4096 { TraceOrigin::Guest } else { TraceOrigin::Hardware };
    goals(report, &Context { prepared: &case.prepared, start, traced })
}

fn missed(goals: &[Goal]) -> Vec<&'static str> {
    goals.iter().filter(|goal| goal.met == Some(false)).map(|goal| goal.name).collect()
}

#[test]
fn the_model_tells_the_truth() {
    for name in TRACES {
        let case = case_of(name);
        for start in [Start::LookAhead, Start::Snapshot] {
            let report = check(&case.plan(start)).expect("sound books");
            let goals = judge(&case, &report, start);
            println!("{name}, {start:?}");
            for goal in &goals {
                println!("  {:45} {:?} {:?} {:?}", goal.name, goal.measured, goal.limit, goal.met);
            }
            assert!(goals.iter().any(|goal| goal.met == Some(true)), "{name}: nothing judged");
            assert_eq!(missed(&goals), [""; 0], "{name}, {start:?}");
            let total = &report.total;
            assert!(total.error * 5.0 < total.trivial_error, "{name}: no better than trivial");
            let one_step = &report.one_step.total;
            println!("  {:?}", one_step.certain);
            if start == Start::LookAhead && case.page_size == 4096 {
                // What events tell is foretold.
                assert!((1..one_step.switches).contains(&one_step.certain.switches), "{name}");
                assert!((1..one_step.discards).contains(&one_step.certain.discards), "{name}");
                assert!(one_step.certain.hit_rate() >= 0.98, "{name}: {one_step:?}");
                assert!(one_step.certain.discard_rate() >= 0.99, "{name}: {one_step:?}");
            }
        }
        let empty = check(&case.plan(Start::Empty)).expect("sound books");
        let goals = judge(&case, &empty, Start::LookAhead);
        assert!(!missed(&goals).is_empty(), "{name}: an empty start passes");
    }
}

/// A rule changed, by name.
type Change = (&'static str, fn(&mut Rules));

/// Each wrong rule misses a goal on one trace or another that the right rules meet.
#[test]
fn wrong_rules_are_told_from_the_right_ones() {
    let wrong: [Change; 6] = [
        ("cpu_partial halved", |r| r.cpu_partial_slabs = (r.cpu_partial_slabs / 2).max(1)),
        ("cpu_partial doubled", |r| r.cpu_partial_slabs *= 2),
        ("drain to the list's head", |r| r.planted = Planted::DrainToHead),
        ("no batch move", |r| r.planted = Planted::NoBatchMove),
        ("min_partial 0", |r| r.min_partial = 0),
        ("min_partial 20", |r| r.min_partial = 20),
    ];
    let mut cases: Vec<(&str, Case)> =
        TRACES[..2].iter().map(|name| (*name, case_of(name))).collect();
    for (rule, change) in wrong {
        let mut found = Vec::new();
        for (name, case) in &mut cases {
            let right = case.rules.clone();
            case.rules.iter_mut().for_each(change);
            let report = check(&case.plan(Start::LookAhead)).expect("sound books");
            let missed = missed(&judge(case, &report, Start::LookAhead));
            let told = report.one_step.total.certain.hit_rate();
            assert!(told < 0.98 || !rule.starts_with("cpu_partial"), "{name}, {rule}: {told}");
            found.extend(missed.into_iter().map(|goal| format!("{name}: {goal}")));
            case.rules = right;
            if !found.is_empty() {
                break;
            }
        }
        println!("{rule}: {found:?}");
        assert!(!found.is_empty(), "{rule} was not told");
    }
}

/// Tasks that are not traced allocate and free objects, too: what the trace takes for free is in
/// use then. The model is corrected by what the kernel chose, and then predicts the next choice.
#[test]
fn objects_of_tasks_that_are_not_traced_do_not_blind_the_model() {
    let (mut trace, snapshot) = recorded("forkexec").clone();
    let before = trace.events.len();
    trace.events.retain(|event| {
        let is_of_pages = matches!(event.kind, EventKind::PageAlloc | EventKind::PageFree);
        is_of_pages || event.pid % 32 != 0
    });
    let hidden = 1.0 - trace.events.len() as f64 / before as f64;
    assert!(hidden > 0.01, "{hidden}");
    let (settings, _) = snapshot.settings().expect("a known kernel");
    let case = Case::new(&trace, &snapshot, &settings, Order::HOST).expect("a case");
    let total = check(&case.plan(Start::LookAhead)).expect("sound books").one_step.total;
    let (rate, known) = (total.hit_rate(), total.certain.hit_rate());
    println!("{:.2} % are hidden: {:.2}, {:.2} %", hidden * 100.0, rate * 100.0, known * 100.0);
    assert!(rate > 0.8, "{rate}");
    assert!(known > 0.95, "{known}");
    assert!(total.unseen > 0, "the order of free objects shows none");
}

#[test]
fn the_same_run_twice_is_the_same_and_its_books_are_sound() {
    let case = case_of("tr64k_hb_smp4");
    let plan = Plan { audit_every: 20_000, sample_every: 10_000, ..case.plan(Start::LookAhead) };
    let (a, b) = (replay(&plan).expect("sound"), replay(&plan).expect("sound"));
    assert_eq!(a.changes, b.changes);
    assert_eq!(a.after.caches, b.after.caches);
    assert_eq!(a.samples.len(), case.prepared.steps.len().div_ceil(10_000));
    let steps = &case.prepared.steps;
    for (nth, (before, after)) in a.before.caches.iter().zip(&a.after.caches).enumerate() {
        let of = |op| steps.iter().filter(|s| usize::from(s.cache) == nth && s.op == op).count();
        let expected = before.live() + of(StepKind::Alloc) as u64 - of(StepKind::Free) as u64;
        assert_eq!(after.live(), expected, "live objects of {}", case.ids[nth]);
        let objects = u64::from(after.places.slabs) * u64::from(case.rules[nth].objects);
        let (free, live) = (after.free, after.live());
        assert_eq!(free.parked() + free.node_partial + live, objects, "{}", case.ids[nth]);
    }
}

#[test]
fn shaken_events_give_a_spread() {
    let (trace, snapshot) = recorded("forkexec");
    let (settings, _) = snapshot.settings().expect("a known kernel");
    let order = case::order_of(snapshot);
    let shaken: Vec<Case> = (1..4)
        .map(|seed| Order { jitter_ns: 500, seed, ..order })
        .map(|order| Case::new(trace, snapshot, &settings, order).expect("a case"))
        .collect();
    let runs = shaken.iter().map(|case| Spread::of(&case.plan(Start::LookAhead)).expect("sound"));
    let spread = runs.clone().reduce(Spread::with).expect("three runs");
    assert!(spread.allocated.0 > 0);
    for run in runs {
        assert!(spread.freed.0 <= run.freed.0 && run.freed.1 <= spread.freed.1);
        assert!(spread.relative.0 <= run.relative.0 && run.relative.1 <= spread.relative.1);
    }
    assert!(spread.relative.1 < 0.05, "{spread:?}");
    println!("{spread:?}");
}

/// The same load on other machines: more of everything costs more slabs, and the
/// machine's size costs no memory of the model's that slabs do not.
#[test]
fn other_machines_run_the_same_load() {
    let (trace, snapshot) = recorded("tr64k_hb_smp4");
    let (mut settings, _) = snapshot.settings().expect("a known kernel");
    let bytes = |settings: &_| {
        let case = Case::new(trace, snapshot, settings, case::order_of(snapshot)).unwrap();
        let plan = Plan { audit_every: 100_000, ..case.plan(Start::LookAhead) };
        let done = replay(&plan).expect("sound books");
        let slab = |order: &u8| u64::from(case.page_size) << order;
        let caches = done.caches.iter().zip(&case.orders);
        caches.map(|(cache, order)| u64::from(cache.nr_slabs()) * slab(order)).sum::<u64>()
    };
    let traced = bytes(&settings);
    settings.machine = Machine::new(4096, 4);
    let small_pages = bytes(&settings);
    settings.machine = Machine::new(65536, 512);
    let many_cpus = bytes(&settings);
    assert!(small_pages < traced, "{small_pages} against {traced}");
    assert!(many_cpus > small_pages, "{many_cpus} against {small_pages}");
}

/// A kernel without CPU slabs (SLUB_TINY, 7.0 on) or without CPU partial lists has none
/// at any moment, however the traced one began, and makes a slab only where it has no
/// free object.
#[test]
fn what_a_kernel_does_not_have_holds_nothing() {
    let (trace, snapshot) = recorded("tr64k_hb_smp4");
    let (traced, _) = snapshot.settings().expect("a known kernel");
    let peak_of = |settings: &Settings, start: Start| {
        let order = case::order_of(snapshot);
        let case = Case::new(trace, snapshot, settings, order).expect("a case");
        let plan = Plan { sample_every: 5000, audit_every: 5000, ..case.plan(start) };
        let done = replay(&plan).expect("sound books");
        let moments = done.samples.iter().chain([&done.before, &done.after]);
        for moment in moments.flat_map(|sample| sample.caches.iter().zip(&done.caches)) {
            let (places, rules) = (moment.0.places, moment.1.rules());
            assert!(rules.has_cpu_slabs() || places.cpu_slabs == 0, "{places:?}");
            assert!(rules.cpu_partial_lists || places.cpu_partial == 0, "{places:?}");
        }
        let slabs: u32 = done.before.caches.iter().map(|cache| cache.places.slabs).sum();
        let mut now = i64::from(slabs);
        let mut peak = now;
        for change in &done.changes {
            now += i64::from(change.by);
            peak = peak.max(now);
        }
        peak
    };
    for start in [Start::LookAhead, Start::Snapshot, Start::Empty] {
        let usual = peak_of(&traced, start);
        for release in ["6.8", "6.18", "7.0", "7.3"] {
            for set in [&["tiny=1", "max_order=3"][..], &["cpu_partial_lists=0"], &[]] {
                let (mut settings, _) = Settings::of_version(release, traced.machine).unwrap();
                set.iter().for_each(|text| settings.set(text).unwrap());
                let peak = peak_of(&settings, start);
                assert!(peak < usual * 3 / 2, "{release}, {set:?}, {start:?}: {peak}, not {usual}");
            }
        }
    }
}

/// Prints how long it takes, counters and all, with a sample every 10^5 events: a rate
/// depends on what else the machine does, and is no test.
#[test]
fn how_fast_a_replay_is() {
    let begun = std::time::Instant::now();
    let (trace, snapshot) = recorded("forkexec");
    let opened = begun.elapsed();
    let (settings, _) = snapshot.settings().expect("a known kernel");
    let case = Case::new(trace, snapshot, &settings, case::order_of(snapshot)).expect("a case");
    let prepared = begun.elapsed() - opened;
    let plan = Plan { sample_every: 100_000, ..case.plan(Start::LookAhead) };
    let begun = std::time::Instant::now();
    let done = replay(&plan).expect("sound books");
    let ran = begun.elapsed();
    assert_eq!(done.samples.len(), case.prepared.steps.len().div_ceil(100_000));
    let rate = |of: std::time::Duration| trace.events.len() as f64 / of.as_secs_f64() / 1e6;
    println!(
        "{} events: opened {opened:?}, prepared {prepared:?}, replayed {ran:?}: {:.1} million a \
         second replayed, {:.1} in all",
        trace.events.len(),
        rate(ran),
        rate(opened + prepared + ran),
    );
}
