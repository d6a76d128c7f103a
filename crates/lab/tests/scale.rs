//! A load on machines other than the traced one: the traced settings give the traced result, and
//! other settings have the same live objects at every moment.
//!
//! `cargo test --profile checked -p slabyard-lab --test lab scale:: -- --nocapture` prints the
//! numbers.

use super::recorded::recorded;
use slabyard_lab::case::{self, Case};
use slabyard_lab::population::Population;
use slabyard_lab::replay::events::{Event, MachineEvent};
use slabyard_lab::replay::{Plan, Replayed, Start, replay};
use slabyard_lab::rules::Settings;
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_model::cache::KernelCache;
use std::collections::BTreeMap;

/// A trace on a machine that is changed.
fn case_of(name: &str, change: fn(&mut Settings)) -> Case {
    let (trace, snapshot) = recorded(name);
    let (mut settings, _) = snapshot.settings().expect("a known kernel");
    change(&mut settings);
    Case::new(trace, snapshot, &settings, case::order_of(snapshot)).expect("a case")
}

fn run(case: &Case, tasks: u32) -> Replayed {
    let plan = case.plan(Start::LookAhead);
    replay(&Plan { tasks, sample_every: 5000, audit_every: 20_000, ..plan }).expect("sound books")
}

fn set(settings: &mut Settings, text: &str) {
    settings.set(text).expect("a setting");
}

fn cpus(settings: &mut Settings, cpus: u32) {
    let machine = &mut settings.machine;
    (machine.possible_cpus, machine.present_cpus, machine.online_cpus) = (cpus, cpus, cpus);
}

/// KiB of slabs at the start, at the highest sample, and at the end.
fn kib(case: &Case, run: &Replayed) -> [u64; 3] {
    let kib = |sample: &slabyard_lab::replay::report::Sample| {
        let slabs = sample.caches.iter().zip(&case.orders);
        let pages: u64 = slabs.map(|(at, order)| u64::from(at.places.slabs) << order).sum();
        (pages * u64::from(case.page_size)) >> 10
    };
    [kib(&run.before), run.samples.iter().map(kib).max().unwrap_or(0), kib(&run.after)]
}

/// A machine that is changed, by name.
type Change = (&'static str, fn(&mut Settings));

const TRACES: [&str; 3] = ["forkexec", "hackbench", "tr64k_hb_smp4"];

#[test]
fn no_change_is_no_difference() {
    for name in TRACES {
        let traced = run(&case_of(name, |_| ()), 1);
        let same = run(&case_of(name, |settings| set(settings, "max_order=3")), 1);
        assert_eq!(traced.changes, same.changes, "{name}");
        assert_eq!(traced.before.caches, same.before.caches, "{name}");
        assert_eq!(traced.after.caches, same.after.caches, "{name}");
    }
}

#[test]
fn a_machine_that_is_changed_has_the_same_objects_live_at_every_moment() {
    let changes: [Change; 5] = [
        ("max_order 0", |settings| set(settings, "max_order=0")),
        ("max_order 1", |settings| set(settings, "max_order=1")),
        ("other pages", |settings| settings.machine.page_size ^= 0x1_1000),
        ("16 CPUs", |settings| cpus(settings, 16)),
        ("1 CPU", |settings| cpus(settings, 1)),
    ];
    for (nth, name) in TRACES.into_iter().enumerate() {
        let base = case_of(name, |_| ());
        let traced = run(&base, 1);
        println!("{name}: {:?} KiB as traced", kib(&base, &traced));
        // Each change is made with two of the traces.
        let made = changes.into_iter().enumerate().filter(|(k, _)| (nth + k) % TRACES.len() != 0);
        for (_, (what, change)) in made {
            let case = case_of(name, change);
            let other = run(&case, 1);
            println!("{name}: {:?} KiB, {what}", kib(&case, &other));
            assert_eq!(other.frees_left_out, 0, "{name}, {what}");
            assert_eq!(traced.samples.len(), other.samples.len());
            let all = |run: &Replayed| {
                let samples = run.samples.iter().chain([&run.before, &run.after]);
                let live = |at: &slabyard_lab::replay::report::Sample| {
                    at.caches.iter().map(|cache| cache.live()).collect::<Vec<_>>()
                };
                samples.map(live).collect::<Vec<_>>()
            };
            assert!(all(&traced) == all(&other), "{name}, {what}: other objects are live");
        }
    }
}

#[test]
fn eight_times_the_tasks_have_eight_times_the_objects() {
    let made = |run: &Replayed| run.caches.iter().map(|c| u64::from(c.nr_slabs())).sum::<u64>();
    let case = case_of("tr64k_hb_smp4", |_| ());
    let (one, eight) = (run(&case, 1), run(&case, 8));
    println!("{:?} KiB, eight times {:?}", kib(&case, &one), kib(&case, &eight));
    assert_eq!(one.before.caches, eight.before.caches);
    for (nth, cache) in one.samples.iter().zip(&eight.samples).enumerate().skip(1) {
        let grown = |run: &Replayed, at: &slabyard_lab::replay::report::Sample| {
            let live = |at: &slabyard_lab::replay::report::Sample| {
                at.caches.iter().map(|cache| cache.live() as i64).sum::<i64>()
            };
            live(at) - live(&run.before)
        };
        let (one_grown, eight_grown) = (grown(&one, cache.0), grown(&eight, cache.1));
        // The copies free none of what was there before.
        assert!(eight_grown >= one_grown * 8, "{nth}: {one_grown} {eight_grown}");
    }
    assert_eq!(one.samples.len(), eight.samples.len());
    assert!(made(&eight) > made(&one));
}

/// Those too that are placed where others replaced the objects: a task counts on its CPU until its
/// last step.
#[test]
fn a_tasks_steps_are_counted_as_it_makes_them() {
    for name in TRACES {
        let prepared = case_of(name, |_| ()).prepared;
        let mut made = BTreeMap::new();
        prepared.steps.iter().for_each(|step| *made.entry(step.task).or_default() += 1);
        assert!(prepared.tally.steps_of_task == made, "{name}");
    }
}

/// New CPUs have work: each of 16 allocates.
#[test]
fn tasks_of_four_cpus_run_on_sixteen() {
    let case = case_of("tr64k_hb_smp4", |settings| cpus(settings, 16));
    let replayed = run(&case, 1);
    let cache = |nth: &usize| replayed.caches[*nth].nr_slabs();
    let largest = (0..replayed.caches.len()).max_by_key(cache).expect("a cache");
    let cache = &replayed.caches[largest];
    let with_slab = (0..16).filter(|cpu| cache.cpu_slab(*cpu).is_some()).count();
    assert!(with_slab >= 15, "{with_slab} CPUs have a slab of {}", case.ids[largest]);
}

/// CPUs that were not traced begin with nothing, and CPUs that are gone left what they had on the
/// node's list: no live object is lost, and no other CPU has it.
#[test]
fn new_cpus_begin_with_nothing_and_gone_ones_leave_theirs() {
    let cpu_slabs = |cpus: u32| {
        let mut case = case_of("tr64k_hb_smp4", |_| ());
        case.node_of = vec![0; cpus as usize];
        let plan = Plan { steps: Some(0), audit_every: 1, ..case.plan(Start::LookAhead) };
        let run = replay(&plan).expect("sound books");
        let slabs = run.caches.iter().map(|cache| {
            let on = |cpu: &usize| cache.cpu_slab(*cpu).is_some();
            [4, cpus as usize].map(|most| (0..most.min(cpus as usize)).filter(on).count())
        });
        slabs.collect::<Vec<_>>()
    };
    let (traced, sixteen, one) = (cpu_slabs(4), cpu_slabs(16), cpu_slabs(1));
    assert!(traced.iter().any(|[_, all]| *all == 4));
    for (nth, [old, all]) in sixteen.iter().enumerate() {
        assert_eq!([*old, *all], traced[nth], "cache {nth}");
    }
    let case = case_of("tr64k_hb_smp4", |_| ());
    let of_first = |nth: usize| {
        let uses = &case.prepared.tally.first_uses;
        uses.iter()
            .any(|of| of.cpu == 0 && case.prepared.slabs[of.slab as usize].cache as usize == nth)
    };
    // The CPU that is left has the slab that it had, and none of another one.
    for (nth, [_, all]) in one.iter().enumerate() {
        assert!(*all <= usize::from(of_first(nth)), "cache {nth}");
    }
}

/// What a trace does not touch is laid out by the variant's rules, too: all slabs at the end are
/// those that the snapshot after the load foretells.
#[test]
fn what_no_event_touches_is_laid_out_as_the_population_is() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tr64k_hb_smp4.after.json.zst");
    let after = KernelSnapshot::open(data.as_ref()).expect("a snapshot").remove(0);
    let (own, _) = after.settings().expect("a known kernel");
    let population = Population::from_snapshot(&after, &own).expect("places");
    let orders: [fn(&mut Settings); 3] =
        [|it| set(it, "max_order=0"), |it| set(it, "max_order=1"), |it| set(it, "max_order=2")];
    let all = |change| {
        let case = case_of("tr64k_hb_smp4", change);
        let run = run(&case, 1);
        let untouched = run.untouched.iter().zip(&case.orders);
        let pages: u64 = untouched.map(|(slabs, order)| slabs << order).sum();
        kib(&case, &run)[2] + pages * 64
    };
    let traced = all(|_| ());
    for (order, change) in orders.into_iter().enumerate() {
        let mut settings = own.clone();
        settings.max_order = Some(order as u8);
        let told = population.on(&settings).expect("orders").slab_kb;
        let replayed = all(change);
        println!(
            "order {order}: {traced} KiB as traced, {replayed} replayed, {told} by population"
        );
        let off = replayed as f64 / told as f64 - 1.0;
        assert!(replayed < traced && off.abs() < 0.05, "{off}");
    }
}

fn with_events(events: Vec<Event>, steps: Option<usize>) -> (Case, Replayed) {
    let mut case = case_of("tr64k_hb_smp4", |_| ());
    case.happens(events).expect("they can happen");
    let plan = case.plan(Start::LookAhead);
    let plan = Plan { steps, sample_every: 5000, audit_every: 20_000, ..plan };
    let run = replay(&plan).expect("sound books");
    (case, run)
}

/// The trace's span, and the number of the first step in its second half.
fn middle() -> (u64, usize) {
    let case = case_of("tr64k_hb_smp4", |_| ());
    let span = &case.prepared.span;
    let half = (span.end() - span.start()) / 2;
    let before = |step: &slabyard_lab::prepare::Step| step.time_ns - span.start() < half;
    (half, case.prepared.steps.iter().take_while(before).count())
}

fn live(run: &Replayed) -> Vec<Vec<u64>> {
    let all = run.samples.iter().chain([&run.before, &run.after]);
    all.map(|at| at.caches.iter().map(|cache| cache.live()).collect()).collect()
}

#[test]
fn a_cpu_that_goes_leaves_nothing_and_one_that_comes_has_nothing() {
    let (half, nth) = middle();
    let event = |at_ns, what| Event { at_ns, what };
    let held = |run: &Replayed, cpu: usize| -> usize {
        let of = |cache: &KernelCache| {
            usize::from(cache.cpu_slab(cpu).is_some()) + cache.each_cpu_partial(cpu).count()
        };
        run.caches.iter().map(of).sum()
    };
    let (_, traced) = with_events(Vec::new(), None);
    // Until it goes, all is as traced.
    let (_, until) = with_events(vec![event(half, MachineEvent::Offline(3))], Some(nth));
    let (_, as_traced) = with_events(Vec::new(), Some(nth));
    assert!(held(&until, 3) > 0);
    assert_eq!(until.after.caches, as_traced.after.caches);
    let (_, gone) = with_events(vec![event(half, MachineEvent::Offline(3))], None);
    assert_eq!(held(&gone, 3), 0);
    assert!(live(&gone) == live(&traced), "other objects are live");
    // One that comes late was not there.
    let late = vec![event(half, MachineEvent::Online(3))];
    let (_, before) = with_events(late.clone(), Some(nth));
    assert_eq!(held(&before, 3), 0);
    let (_, after) = with_events(late, None);
    assert!(held(&after, 3) > 0);
    assert!(live(&after) == live(&traced), "other objects are live");
}

#[test]
fn a_shrink_leaves_no_empty_slab_and_sorts_the_lists() {
    let (half, nth) = middle();
    let shrink = Event { at_ns: half, what: MachineEvent::Shrink };
    let (case, run) = with_events(vec![shrink], Some(nth + 1));
    let (_, without) = with_events(Vec::new(), Some(nth + 1));
    let own = case.prepared.steps.iter().nth(nth).expect("a step").cache as usize;
    let mut sorted = 0;
    for (number, cache) in run.caches.iter().enumerate().filter(|(number, _)| *number != own) {
        let places = cache.places();
        assert_eq!((places.cpu_slabs, places.cpu_partial, places.node_empty), (0, 0, 0));
        let free: Vec<u32> = cache.each_node_partial(0).map(|it| it.1).collect();
        let few: Vec<u32> = free.iter().copied().filter(|free| *free <= 32).collect();
        assert!(few.is_sorted() && free.starts_with(&few), "{}: {free:?}", case.ids[number]);
        sorted += usize::from(few.len() > 2);
    }
    assert!(sorted > 3, "{sorted} lists show the order");
    let slabs = |run: &Replayed| run.caches.iter().map(|cache| cache.nr_slabs()).sum::<u32>();
    assert!(slabs(&run) < slabs(&without));
    assert!(live(&run) == live(&without), "other objects are live");
}
