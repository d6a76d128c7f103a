//! A recording that includes the lists read from the kernel: with them the check predicts what the
//! kernel did, and wrong lists are detected.

use slabyard_lab::case::{self, Case};
use slabyard_lab::check::one_step::{self, HitRate};
use slabyard_lab::event::EventKind;
use slabyard_lab::lists::{CpuSheaves, Lists, Objects, json};
use slabyard_lab::replay::{Plan, Start, replay};
use slabyard_lab::rules::{Settings, find_release};
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_lab::trace::{self, LISTS, START, Trace};
use std::collections::HashSet;
use std::path::Path;

fn trace() -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/lists_6.18.slabtrace");
    trace::open(&path).expect("the trace")
}

/// What is foretold with other lists, or with none.
fn foretold(change: impl FnOnce(Lists) -> Option<Lists>) -> HitRate {
    let mut trace = trace();
    let of = |name: &str| trace.attached.iter().find(|one| one.name == name).expect(name);
    let snapshot = KernelSnapshot::parse(&of(START).bytes).expect("a snapshot").remove(0);
    let lists = change(json::read(&of(LISTS).bytes).expect("lists"));
    trace.attached.retain(|one| one.name != LISTS || lists.is_some());
    for one in trace.attached.iter_mut().filter(|one| one.name == LISTS) {
        one.bytes = json::write(lists.as_ref().expect("some"));
    }
    let (settings, _) = snapshot.settings().expect("settings");
    let order = case::order_of(&snapshot);
    let case = Case::new(&trace, &snapshot, &settings, order).expect("a case");
    one_step::run(&case.plan(Start::LookAhead)).total
}

#[test]
fn the_kernels_lists_foretell_it_and_wrong_ones_are_found() {
    let read = foretold(Some);
    let without = foretold(|_| None);
    let reversed = foretold(|mut lists| {
        lists.caches.iter_mut().flat_map(|cache| &mut cache.nodes).for_each(|node| node.reverse());
        Some(lists)
    });
    let shifted = foretold(|mut lists| {
        // Each slab has the free objects of the next.
        for node in lists.caches.iter_mut().flat_map(|cache| &mut cache.nodes) {
            let free: Vec<Option<Objects>> = node.iter().map(|slab| slab.free.clone()).collect();
            let next = free.iter().cycle().skip(1);
            node.iter_mut().zip(next).for_each(|(slab, free)| slab.free = free.clone());
        }
        Some(lists)
    });
    let rates = [read, without, reversed, shifted].map(|score| 100.0 * score.hit_rate());
    let [read, without, reversed, shifted] = rates;
    println!("{rates:?}");
    assert!(read > 99.0, "{rates:?}");
    assert!(without < read - 1.0 && reversed < read - 5.0 && shifted < read - 1.0, "{rates:?}");
}

#[test]
fn other_slabs_begin_with_the_same_objects() {
    let trace = trace();
    let of = |name: &str| trace.attached.iter().find(|one| one.name == name).expect(name);
    let snapshot = KernelSnapshot::parse(&of(START).bytes).expect("a snapshot").remove(0);
    let (mut settings, _) = snapshot.settings().expect("settings");
    let order = case::order_of(&snapshot);
    let mut live = Vec::new();
    for orders in ["max_order=3", "max_order=0", "max_order=1"] {
        settings.set(orders).expect("an order");
        let case = Case::new(&trace, &snapshot, &settings, order).expect("a case");
        let replayed = replay(&case.plan(Start::LookAhead)).expect("sound");
        assert_eq!(replayed.frees_left_out, 0, "{orders}");
        live.push(case.prepared.live_at_start.clone());
    }
    assert!(live.iter().all(|one| *one == live[0]));
}

/// Events go before what was read: what is freed first was live, and in no sheaf.
#[test]
fn what_is_freed_first_was_in_no_sheaf() {
    const CAPACITY: usize = 28;
    let mut trace = trace();
    let of = |name: &str| trace.attached.iter().find(|one| one.name == name).expect(name);
    let mut snapshot = KernelSnapshot::parse(&of(START).bytes).expect("a snapshot").remove(0);
    let mut lists = json::read(&of(LISTS).bytes).expect("lists");
    let mut in_sheaves = 0;
    for cache in &mut lists.caches {
        let name = trace.names.iter().find(|(_, name)| *name == cache.name).map(|(nth, _)| nth);
        let mut seen = HashSet::new();
        let events = trace.events.iter().filter(|event| {
            let names = event.kind.names_cache() && Some(event.name) == name;
            names && event.time > cache.read_at && seen.insert(event.address)
        });
        let freed = events.filter(|event| event.kind == EventKind::CacheFree);
        let main: Vec<u64> = freed.map(|event| event.address).take(CAPACITY).collect();
        in_sheaves += main.len();
        cache.sheaves = vec![CpuSheaves { main, ..CpuSheaves::default() }];
    }
    assert!(in_sheaves > CAPACITY, "{in_sheaves}");
    for one in trace.attached.iter_mut().filter(|one| one.name == LISTS) {
        one.bytes = json::write(&lists);
    }
    for cache in &mut snapshot.caches {
        cache.sheaf_capacity = Some(CAPACITY as u32);
    }
    let machine = snapshot.settings().expect("settings").0.machine;
    let settings = Settings::new(find_release("7.3").expect("a release").0, machine);
    let case = Case::new(&trace, &snapshot, &settings, case::order_of(&snapshot)).expect("a case");
    let plan = Plan { audit_every: 1000, ..case.plan(Start::LookAhead) };
    replay(&plan).expect("sound books");
}
