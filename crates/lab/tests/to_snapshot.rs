//! A replay turned into a snapshot: its sums, its lists, and the moment with most slabs, for the
//! rules of kernels with and without CPU slabs, sheaves and nodes.

use slabyard_lab::case::{self, Case};
use slabyard_lab::replay::{Plan, Replayed, Start, replay};
use slabyard_lab::rules::{Machine, Settings};
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_lab::to_snapshot::ReplaySnapshot;
use slabyard_lab::trace::{self, Trace};
use slabyard_observe::identity;
use slabyard_observe::snapshot::{Slab, SlabPlace, SourceKind};
use slabyard_observe::{Cache, Reading, Snapshot, Value};
use std::collections::BTreeMap;
use std::path::Path;

const NAME: &str = "tr64k_hb_smp4";

fn traced() -> (Trace, KernelSnapshot) {
    let file = |end: &str| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("traces").join(format!("{NAME}{end}"))
    };
    let snapshot = KernelSnapshot::open(&file(".before.json.zst")).expect("a snapshot").remove(0);
    (trace::open(&file(".slabtrace")).expect("a trace"), snapshot)
}

/// Of a release on a machine, or with the traced one's settings changed.
fn settings(kernel: &KernelSnapshot, release: Option<&str>, set: &[&str]) -> Settings {
    let (mut settings, _) = match release {
        None => kernel.settings().expect("a known kernel"),
        Some(release) => {
            let machine = Machine { nodes: 2, ..Machine::new(4096, 6) };
            Settings::of_version(release, machine).expect("a known release")
        }
    };
    set.iter().for_each(|text| settings.set(text).expect("a setting"));
    settings
}

fn tell(
    (trace, kernel): &(Trace, KernelSnapshot),
    settings: &Settings,
    case: &Case,
    plan: &Plan<'_>,
) -> (Snapshot, Replayed) {
    let replayed = replay(plan).expect("sound books");
    let start = plan.start;
    let (lost, damaged) = (trace.lost, &trace.damaged[..]);
    let run = ReplaySnapshot {
        name: NAME,
        lost,
        damaged,
        kernel,
        settings,
        case,
        start,
        replayed: &replayed,
    };
    let snapshot = run.snapshot();
    (snapshot, replayed)
}

fn number(cache: &Cache, name: &str) -> u64 {
    cache.exact(name).unwrap_or_else(|| panic!("{name} of {}", cache.name))
}

/// Parts add up to the value.
fn is_sum(reading: &Reading, parts: &[(u32, Value)]) -> bool {
    let sum = parts.iter().try_fold(Value::Exact(0), |sum, (_, part)| sum.plus(part));
    sum.as_ref() == Some(&reading.value)
}

fn adds_up(cache: &Cache) {
    let get = |name: &str| number(cache, name);
    let parked = get("parked_cpu") + get("parked_node");
    let name = &cache.name;
    assert_eq!(get("live") + parked + get("free_partial"), get("total_objects"), "{name}");
    assert_eq!(get("objects"), get("live") + parked, "{name}");
    for name in ["slabs", "parked_node", "partial", "empty", "free_partial", "objects_partial"] {
        let reading = cache.reading(name).unwrap();
        assert!(is_sum(reading, &reading.nodes) && reading.cpus.is_empty(), "{name}: {reading:?}");
    }
    for name in ["parked_cpu", "cpu_slabs", "slabs_cpu_partial"] {
        let reading = cache.reading(name).unwrap();
        assert!(is_sum(reading, &reading.cpus) && reading.nodes.is_empty(), "{name}: {reading:?}");
    }
}

/// Slabs one by one are those that are counted; counts along a CPU's list go down to
/// its last slab.
fn lists_are_counted(cache: &Cache, counts_objects: bool) {
    let slabs = cache.slabs.as_ref().unwrap();
    let mut lists: BTreeMap<SlabPlace, Vec<&Slab>> = BTreeMap::new();
    slabs.iter().for_each(|slab| lists.entry(slab.place).or_default().push(slab));
    let parts = |name: &str| cache.reading(name).unwrap().clone();
    let (nodes, cpus) = (parts("partial").nodes, parts("slabs_cpu_partial").cpus);
    let nodes = nodes.into_iter().map(|(n, slabs)| (SlabPlace::Node(n), slabs));
    let counted = nodes.chain(cpus.into_iter().map(|(n, slabs)| (SlabPlace::Cpu(n), slabs)));
    let counted: BTreeMap<_, _> = counted.filter(|(_, slabs)| *slabs != Value::Exact(0)).collect();
    let listed = |list: &Vec<&Slab>| Value::Exact(list.len() as u64);
    assert_eq!(
        lists.iter().map(|(at, list)| (*at, listed(list))).collect::<BTreeMap<_, _>>(),
        counted
    );
    for (place, list) in &lists {
        let in_list = matches!(place, SlabPlace::Cpu(_));
        for (nth, slab) in list.iter().enumerate() {
            let behind = in_list.then(|| (list.len() - nth) as u32);
            assert_eq!(slab.partial_pages, behind);
            assert_eq!(slab.partial_objects.is_some(), in_list && counts_objects);
            // What joins a list has a free object, and no more than are free now were
            // counted then: what a list has, nobody allocates from.
            let free: u32 = list[nth..].iter().map(|slab| slab.free()).sum();
            let objects = slab.partial_objects.unwrap_or(free);
            assert!(behind.unwrap_or(1) <= objects && objects <= free, "{slab:?}");
        }
    }
    let fullness: u64 = cache.fullness.iter().flatten().map(|(_, slabs)| slabs).sum();
    assert_eq!(fullness, slabs.len() as u64);
}

#[test]
fn sums_and_lists_agree_under_the_rules_of_every_kernel() {
    let traced = traced();
    let (mut parked_node, mut far, mut undercounted) = (0, 0, 0);
    for (release, set, counts_objects) in [
        (None, &[][..], false),
        (Some("5.9"), &[], true),
        (Some("6.18"), &[], false),
        (Some("6.18"), &["accounting=exact"], true),
        (Some("7.1"), &[], false),
    ] {
        let settings = settings(&traced.1, release, set);
        let order = case::order_of(&traced.1);
        let case = Case::new(&traced.0, &traced.1, &settings, order).expect("a case");
        let (snapshot, replayed) = tell(&traced, &settings, &case, &case.plan(Start::LookAhead));
        assert_eq!(identity::check(&snapshot), [], "{release:?}");
        assert_eq!(snapshot.source.kind, SourceKind::Lab);
        assert_eq!(snapshot.source.release.as_deref(), Some(settings.release.name));
        assert_eq!(snapshot.caches.len(), case.ids.len());
        let mut pages = BTreeMap::new();
        for (cache, moment) in snapshot.caches.iter().zip(&replayed.after.caches) {
            adds_up(cache);
            lists_are_counted(cache, counts_objects);
            let places = &moment.places;
            for (name, want) in [
                ("slabs", places.slabs.into()),
                ("live", moment.live()),
                ("parked_cpu", moment.free.parked_cpu()),
                ("parked_node", moment.free.barns),
                ("free_partial", moment.free.node_partial),
                ("partial", places.node_partial.into()),
                ("empty", places.node_empty.into()),
                ("cpu_slabs", (places.cpu_slabs + places.cpu_partial).into()),
                ("slabs_cpu_partial", places.cpu_partial.into()),
            ] {
                assert_eq!(number(cache, name), want, "{name} of {}", cache.name);
            }
            for slab in cache.slabs.iter().flatten() {
                let bytes = u64::from(settings.machine.page_size) << slab.order;
                assert_eq!(slab.page % bytes, 0);
                assert_eq!(pages.insert(slab.page, bytes), None, "two slabs at {:x}", slab.page);
                let counted = slab
                    .partial_objects
                    .is_some_and(|n| slab.partial_pages == Some(1) && n < slab.free());
                undercounted += u64::from(counted && release == Some("5.9"));
                far += u64::from(slab.place == SlabPlace::Node(1));
            }
            parked_node += number(cache, "parked_node");
        }
        let ends: Vec<_> = pages.iter().map(|(page, bytes)| page + bytes).collect();
        assert!(ends.iter().zip(pages.keys().skip(1)).all(|(end, next)| end <= next));
        let names = ["live", "parked_cpu", "parked_node", "in_transit", "free_partial", "padding"];
        let sum: u64 =
            names.map(|name| snapshot.total(name).unwrap().exact().unwrap()).iter().sum();
        assert_eq!(snapshot.total("committed"), Some(&Value::Exact(sum)));
    }
    assert!(parked_node > 0 && far > 0, "barns {parked_node}, slabs of node 1 {far}");
    assert!(undercounted > 0, "kernels to 5.15 count a slab when it joins");
}

#[test]
fn merged_caches_are_named_as_the_sampler_of_a_kernel_names_them() {
    let traced = traced();
    let settings = settings(&traced.1, None, &[]);
    let order = case::order_of(&traced.1);
    let case = Case::new(&traced.0, &traced.1, &settings, order).expect("a case");
    let (snapshot, _) = tell(&traced, &settings, &case, &case.plan(Start::LookAhead));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("traces/{NAME}.before.json.zst"));
    let sampled = slabyard_observe::file::open(&path).expect("the same dump");
    let names = |snapshot: &Snapshot| {
        let mut names: Vec<_> = snapshot
            .caches
            .iter()
            .map(|c| (c.name.clone(), c.id.clone(), c.aliases.clone()))
            .collect();
        names.sort();
        names
    };
    assert!(snapshot.caches.iter().any(|cache| cache.id.is_some()));
    assert_eq!(names(&snapshot), names(&sampled));
}

#[test]
fn the_moment_with_most_slabs_is_found_and_run_to_again() {
    let traced = traced();
    let settings = settings(&traced.1, None, &[]);
    let order = case::order_of(&traced.1);
    let case = Case::new(&traced.0, &traced.1, &settings, order).expect("a case");
    let plan = Plan { sample_every: 100, ..case.plan(Start::LookAhead) };
    let (end, replayed) = tell(&traced, &settings, &case, &plan);
    let until = |steps| Plan { steps: Some(steps), ..case.plan(Start::LookAhead) };
    let slabs = |snapshot: &Snapshot| -> u64 {
        snapshot.caches.iter().map(|cache| number(cache, "slabs")).sum()
    };
    let (peak, again) = tell(&traced, &settings, &case, &until(replayed.peak));
    let (before, _) = tell(&traced, &settings, &case, &until(replayed.peak - 1));
    let most = slabs(&peak);
    assert!(slabs(&before) < most && slabs(&end) < most);
    assert_eq!(again.peak, replayed.peak);
    for sample in &replayed.samples {
        let slabs: u64 = sample.caches.iter().map(|of| u64::from(of.places.slabs)).sum();
        let is_before = sample.time_ns < again.after.time_ns;
        assert!(slabs + u64::from(is_before) <= most, "{slabs} slabs at {} ns", sample.time_ns);
    }
    let moments = [&before, &peak, &end].map(|snapshot| snapshot.source.trace_ns.unwrap());
    assert!(moments.is_sorted() && moments[1] < moments[2], "{moments:?}");
    let (start, _) = tell(&traced, &settings, &case, &until(0));
    assert_eq!(start.source.trace_ns, Some(0));
    let placed: u64 = replayed.before.caches.iter().map(|of| u64::from(of.places.slabs)).sum();
    assert_eq!(slabs(&start), placed);
}

#[test]
fn what_is_not_known_is_not_told() {
    let (mut trace, kernel) = traced();
    trace.lost = 7;
    let traced = (trace, kernel);
    let settings = settings(&traced.1, None, &[]);
    let order = case::order_of(&traced.1);
    let case = Case::new(&traced.0, &traced.1, &settings, order).expect("a case");
    let (snapshot, _) = tell(&traced, &settings, &case, &case.plan(Start::Snapshot));
    assert!(snapshot.caches.iter().all(|cache| cache.value("live").is_none()));
    assert_eq!(snapshot.total("live"), None);
    assert!(snapshot.total("committed").is_some());
    let missing: Vec<String> =
        snapshot.missing.iter().map(|m| format!("{}: {}", m.what, m.why)).collect();
    for words in ["events: 7 were lost", "live: the start", "slabs: "] {
        assert!(missing.iter().any(|line| line.starts_with(words)), "{words}: {missing:?}");
    }
}
