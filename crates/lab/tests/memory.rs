//! Replays recorded traces on machines with limited memory: ample memory makes no difference; each
//! page is in exactly one place at every moment; when memory is short, a slab falls back to a
//! smaller order or the replay ends.
//!
//! `cargo test --profile checked -p slabyard-lab --test lab memory:: -- --nocapture` prints the
//! numbers.

use super::recorded::recorded;
use slabyard_lab::case::{self, Case};
use slabyard_lab::counters::Counter;
use slabyard_lab::replay::memory::{MemoryOutcome, MemoryUser};
use slabyard_lab::replay::{Limit, Plan, Relief, Replayed, Start, replay};
use slabyard_lab::rules::Settings;
use slabyard_lab::slab;
use slabyard_lab::trace::Events;

const MIB: u64 = 1 << 20;

fn case_of(name: &str, change: fn(&mut Settings), of_slab: bool) -> Case {
    let (trace, snapshot) = recorded(name);
    let (mut settings, _) = snapshot.settings().expect("a known kernel");
    change(&mut settings);
    let mut case = Case::new(trace, snapshot, &settings, case::order_of(snapshot)).expect("a case");
    if of_slab {
        case.follow_slab(snapshot, &slab::Rules::of(&settings.machine)).expect("its slabs");
    }
    case.tell_others(Events::Held(&trace.events)).expect("events in memory");
    case
}

fn run(case: &Case, bytes: Option<u64>, relief: Relief) -> Replayed {
    let memory = bytes.map(|bytes| Limit { bytes, relief });
    let plan = Plan { memory, audit_every: 20_000, ..case.plan(Start::LookAhead) };
    replay(&plan).expect("sound books")
}

fn told(replayed: &Replayed) -> &MemoryOutcome {
    replayed.memory.as_ref().expect("a machine whose memory has an end")
}

/// Pages of the model's slabs, small ones as they are.
fn slab_pages(case: &Case, replayed: &Replayed) -> u64 {
    let caches = replayed.after.caches.iter().enumerate();
    caches
        .map(|(nth, moment)| {
            let [slabs, small] = [moment.places.slabs, moment.places.small].map(u64::from);
            ((slabs - small) << case.orders[nth]) + (small << case.least[nth].0)
        })
        .sum()
}

/// Each page is free, kept by a CPU, in a slab that was reported, waits for readers, or is another
/// one.
fn assert_all_pages_are_somewhere(case: &Case, replayed: &Replayed) {
    let told = told(replayed);
    let of_slabs = slab_pages(case, replayed) + told.untouched + u64::from(told.waiting_pages);
    assert_eq!(of_slabs - told.counts.lacking.min(of_slabs), u64::from(told.counts.of_slabs));
    let rest = told.end.pages + told.end.kept + told.counts.of_requests;
    assert_eq!(u64::from(told.counts.of_slabs) + u64::from(rest), u64::from(told.pages));
}

const TRACES: [&str; 2] = ["forkexec", "hackbench"];

#[test]
fn enough_memory_makes_no_difference() {
    for name in TRACES {
        for of_slab in [false, true] {
            let case = case_of(name, |_| (), of_slab);
            let (without, with) =
                (run(&case, None, Relief::None), run(&case, Some(1 << 30), Relief::None));
            assert_eq!(without.changes, with.changes, "{name}");
            assert_eq!((told(&with).failed, told(&with).counts.fallbacks), (None, 0), "{name}");
            assert_all_pages_are_somewhere(&case, &with);
        }
    }
}

/// From what the traced kernel needed down, in steps of a hundredth: large blocks are short before
/// pages are, so that slabs fall back, and then requests fail.
#[test]
fn slabs_fall_back_before_memory_ends() {
    let case = case_of("hackbench", |_| (), false);
    let enough = run(&case, Some(1 << 30), Relief::None);
    let (most, fewest) = (u64::from(told(&enough).pages), told(&enough).fewest);
    let least = most - u64::from(fewest.pages) - u64::from(fewest.kept);
    let (mut fell_back, mut failed) = (0, 0);
    for hundredth in [105, 102, 100, 98] {
        let pages = least * hundredth / 100;
        let tight = run(&case, Some(pages * u64::from(case.page_size)), Relief::None);
        let told = told(&tight);
        println!("{pages} pages: {} of a lower order, {:?}", told.counts.fallbacks, told.failed);
        let counted: u64 =
            tight.caches.iter().map(|cache| cache.counters().get(Counter::OrderFallback)).sum();
        assert_eq!(counted, told.counts.fallbacks);
        assert_all_pages_are_somewhere(&case, &tight);
        fell_back += told.counts.fallbacks;
        failed += u32::from(told.failed.is_some());
        if told.failed.is_none() {
            // The same objects are live, in smaller slabs.
            let live = |of: &Replayed| -> u64 { of.after.caches.iter().map(|c| c.live()).sum() };
            assert_eq!(live(&tight), live(&enough));
        }
    }
    assert!(fell_back > 0 && failed > 0, "{fell_back} slabs fell back, {failed} runs failed");
}

/// What existed before is placed first, and a machine that is too small for it says how large one
/// would have to be; one that large holds it.
#[test]
fn what_was_there_before_must_fit() {
    let case = case_of("hackbench", |_| (), false);
    let small = run(&case, Some(8 * MIB), Relief::Full);
    let failed = told(&small).failed.expect("a host's slabs on 8 MiB");
    let MemoryUser::Start { lacking } = failed.what else { panic!("{failed:?}") };
    assert_eq!((failed.step, small.changes.len()), (0, 0));
    let page = u64::from(case.page_size);
    let enough = 8 * MIB + lacking * page;
    let exact = run(&case, Some(enough), Relief::None);
    assert!(!matches!(told(&exact).failed.map(|it| it.what), Some(MemoryUser::Start { .. })));
    let less = run(&case, Some(enough - page), Relief::None);
    let one = MemoryUser::Start { lacking: 1 };
    assert_eq!(told(&less).failed.map(|failed| failed.what), Some(one));
}
