//! Each setting of the one table, with each engine and release: it changes what comes of a replay, or
//! is refused with what to do. Nothing is taken and ignored.
//!
//! The replayed trace exercises them all: caches of many sizes, one of which asks for sheaves, four
//! CPUs on two nodes, frees on other CPUs, requests for a node, pauses in which SLAB's timers run,
//! and a shrink.

use slabyard_kernels::engines::EngineName;
use slabyard_kernels::settings::{REPLAYED, ReplayKey, ReplayRow, ReplayValues};
use slabyard_lab::case::{self, Case};
use slabyard_lab::event::{ANY_NODE, Event, EventKind};
use slabyard_lab::replay::events::{Event as Happening, MachineEvent};
use slabyard_lab::replay::{Start, replay};
use slabyard_lab::rules::{Machine, NodeSet, RELEASES, Release, SettingError, Settings};
use slabyard_lab::snapshot::KernelSnapshot;
use slabyard_lab::trace::{Frames, Header, NO_NAME, Names, Trace};
use std::fmt::Write;

const PAGE_OFFSET: u64 = 0x8880_0000_0000;
/// Bytes of the caches' objects, and the order of the traced kernel's slabs.
const CACHES: [(u32, u8); 9] =
    [(24, 0), (64, 0), (192, 0), (512, 2), (1504, 3), (3000, 3), (4096, 3), (6144, 3), (11000, 3)];
/// The one that asks for sheaves, and for how large ones.
const WITH_SHEAVES: (usize, u32) = (2, 24);

const MACHINE: Machine = Machine {
    page_size: 4096,
    possible_cpus: 16,
    present_cpus: 4,
    online_cpus: 4,
    nodes: 2,
    memoryless: NodeSet::NONE,
    memory_bytes: 1 << 30,
};

/// The caches, empty.
fn snapshot() -> KernelSnapshot {
    let mut caches = String::new();
    for (nth, (size, order)) in CACHES.into_iter().enumerate() {
        let objects = (4096 << order) / size;
        let sheaf = if nth == WITH_SHEAVES.0 { WITH_SHEAVES.1 } else { 0 };
        let comma = if nth > 0 { "," } else { "" };
        let _ = write!(
            caches,
            r#"{comma}"c{size}": {{"object_size": {size}, "slab_size": {size}, "order": {order},
            "objs_per_slab": {objects}, "cpu_partial": 6, "min_partial": 5, "slabs": 0, "objects": 0,
            "partial": 0, "objects_partial": 0, "cpu_slabs": 0, "slabs_cpu_partial": "0(0)",
            "sheaf_capacity": {sheaf}}}"#
        );
    }
    let text = format!(
        r#"{{"kernel": "6.12.1", "page_size": 4096, "possible_cpus": "0-15", "present_cpus": "0-3",
        "online_cpus": "0-3", "nodes": "0-1", "aliases": {{}}, "slab": {{{caches}}}}}"#
    );
    KernelSnapshot::parse(text.as_bytes()).expect("a snapshot").remove(0)
}

/// A load in the making.
struct Load {
    names: Names,
    events: Vec<Event>,
    /// Of each cache: free places, and live objects.
    free: Vec<Vec<u64>>,
    live: Vec<Vec<u64>>,
    next_frame: u64,
    time: u64,
    random: u64,
}

impl Load {
    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 20) % bound
    }

    fn push(&mut self, kind: EventKind, cache: usize, address: u64, cpu: u16, node: i16) {
        self.time += 20_000;
        let name = if kind == EventKind::PageAlloc { NO_NAME } else { cache as u32 + 1 };
        let size = if kind == EventKind::CacheAlloc { CACHES[cache].0 } else { 0 };
        self.events.push(Event {
            time: self.time,
            address,
            name,
            pid: 100 + u32::from(cpu),
            requested: size,
            allocated: size,
            // Some may not wait.
            gfp: if address & 64 == 0 { 0xcc0 } else { 0x2800 },
            cpu,
            node,
            order: if kind == EventKind::PageAlloc { CACHES[cache].1 } else { 0 },
            kind,
            ..Event::BLANK
        });
    }

    fn alloc(&mut self, cache: usize, cpu: u16, node: i16) {
        if self.free[cache].is_empty() {
            let (size, order) = CACHES[cache];
            let frame = self.next_frame.next_multiple_of(1 << order);
            self.next_frame = frame + (1 << order);
            self.push(EventKind::PageAlloc, cache, frame, cpu, 0);
            let objects = (0..u64::from((4096 << order) / size)).rev();
            let base = PAGE_OFFSET + (frame << 12);
            self.free[cache].extend(objects.map(|nth| base + nth * u64::from(size)));
        }
        if let Some(address) = self.free[cache].pop() {
            self.push(EventKind::CacheAlloc, cache, address, cpu, node);
            self.live[cache].push(address);
        }
    }

    fn free(&mut self, cache: usize, nth: usize, cpu: u16) {
        let address = self.live[cache].swap_remove(nth);
        self.push(EventKind::CacheFree, cache, address, cpu, ANY_NODE);
        self.free[cache].push(address);
    }
}

fn trace() -> Trace {
    let mut names = Names::new();
    for (size, _) in CACHES {
        names.intern(&format!("c{size}"));
    }
    let mut load = Load {
        names,
        events: Vec::new(),
        free: vec![Vec::new(); CACHES.len()],
        live: vec![Vec::new(); CACHES.len()],
        next_frame: 1 << 10,
        time: 1_000_000,
        random: 0x9e37_79b9_7f4a_7c15,
    };
    for round in 0..6 {
        // More than CPUs' lists and arrays hold, then most of it freed by any CPU, in any order.
        for (cache, (size, _)) in CACHES.into_iter().enumerate() {
            let most = if size < 1024 { 360 } else { 48 };
            while load.live[cache].len() < most {
                let cpu = load.below(4) as u16;
                let node = if load.below(9) == 0 { load.below(2) as i16 } else { ANY_NODE };
                load.alloc(cache, cpu, node);
            }
        }
        load.time += 5_000_000_000;
        for cache in 0..CACHES.len() {
            let stay = 10 * (round % 3);
            while load.live[cache].len() > stay {
                let nth = load.below(load.live[cache].len() as u64) as usize;
                let cpu = load.below(4) as u16;
                load.free(cache, nth, cpu);
            }
        }
        // The last pause is of hours, as timers are set to.
        load.time += if round == 4 { 2 * 3600 * 1_000_000_000 } else { 5_000_000_000 };
    }
    let header = Header {
        release: "6.12.1".into(),
        page_size: Some(4096),
        cpus: Some(4),
        page_offset: Some(PAGE_OFFSET),
        source: "a test".into(),
    };
    assert_eq!(Frames::detect(&load.events).map(|it| it.page_offset), Some(PAGE_OFFSET));
    Trace { events: load.events, names: load.names, header, ..Trace::default() }
}

/// The trace, ready to be replayed by any settings.
struct Bench {
    trace: Trace,
    snapshot: KernelSnapshot,
    case: Case,
}

impl Bench {
    fn new() -> Bench {
        let (trace, snapshot) = (trace(), snapshot());
        let settings = Settings::new(&RELEASES[3], MACHINE);
        let order = case::order_of(&snapshot);
        let case = Case::new(&trace, &snapshot, &settings, order).expect("a case");
        assert_eq!(case.prepared.oddities, Default::default(), "the load contradicts itself");
        Bench { trace, snapshot, case }
    }

    /// What comes of a replay: geometry, counters, and where slabs are in the end.
    fn outcome(&mut self, engine: EngineName, settings: &Settings) -> Vec<u64> {
        let case = &mut self.case;
        case.rule(&self.trace.header, &self.snapshot, settings).expect("a geometry");
        case.slab = Default::default();
        if engine == EngineName::Slab {
            case.follow_slab_of(&self.snapshot, settings).expect("a geometry");
        }
        let shrink = Happening { at_ns: 22_000_000_000, what: MachineEvent::Shrink };
        case.happens(vec![shrink]).expect("it can happen");
        let done = replay(&case.plan(Start::LookAhead)).expect("a replay");
        let mut outcome = vec![done.changes.len() as u64];
        for (nth, cache) in done.caches.iter().enumerate() {
            outcome.extend([u64::from(case.orders[nth]), u64::from(case.rules[nth].objects)]);
            outcome.extend(cache.counters().each().map(|(.., count)| count));
            let at = &done.after.caches[nth].places;
            outcome.extend([at.slabs, at.node_partial, at.cpu_partial].map(u64::from));
        }
        outcome
    }
}

/// Values of a setting: all words, and numbers of all kinds.
fn values(row: &ReplayRow) -> Vec<String> {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    match &row.values {
        ReplayValues::Number(_, bounds) | ReplayValues::AutoOr(bounds) => {
            let (least, most) = (*bounds.start(), *bounds.end());
            let numbers = [least, 1, 2, 100, most];
            let mut numbers: Vec<u32> =
                numbers.into_iter().filter(|number| bounds.contains(number)).collect();
            numbers.dedup();
            let auto = matches!(row.values, ReplayValues::AutoOr(_)).then(|| "auto".to_owned());
            numbers.iter().map(u32::to_string).chain(auto).collect()
        }
        ReplayValues::Switch => owned(&["0", "1"]),
        ReplayValues::BySize => owned(&["kernel", "0", "2", "7", "300", "64:3,page:1"]),
        ReplayValues::Words(words) => {
            let mut words: Vec<String> =
                words.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            if row.key == ReplayKey::Freezing {
                words.extend(owned(&["patch-1", "patch-2", "patch-4"]));
            }
            words
        }
    }
}

/// True if the release has that value of its own.
fn is_default(key: ReplayKey, value: &str, release: &Release, engine: EngineName) -> bool {
    let max_order = match engine {
        EngineName::Slub | EngineName::Slob => release.max_order.to_string(),
        EngineName::Tiny | EngineName::Slab => "1".into(),
    };
    let default = match key {
        ReplayKey::MinOrder | ReplayKey::PressureMs => "0",
        ReplayKey::MaxOrder => &max_order,
        ReplayKey::OrderRule => "default",
        ReplayKey::MinObjects => "auto",
        ReplayKey::Multiplier => "4",
        ReplayKey::MinPartial if engine == EngineName::Tiny && value == "0" => "0",
        ReplayKey::CpuPartial | ReplayKey::MinPartial | ReplayKey::SheafCapacity => "kernel",
        ReplayKey::MaxFullSheaves | ReplayKey::MaxEmptySheaves => "kernel",
        ReplayKey::Tiny if engine == EngineName::Tiny => "1",
        ReplayKey::Tiny => "0",
        ReplayKey::OrderFormula => release.formula.name(),
        ReplayKey::CountedCpus if release.version < (5, 11) => "possible",
        ReplayKey::CountedCpus => "present",
        ReplayKey::Front => release.front.name(),
        ReplayKey::Freezing => release.freezing.name(),
        ReplayKey::Accounting => release.accounting.name(),
        ReplayKey::NowaitRefills
        | ReplayKey::CpuPartialLists
        | ReplayKey::Arrays
        | ReplayKey::AlienCache => "1",
        ReplayKey::Reclaim => "today",
        ReplayKey::PageLists => return false,
    };
    value == default
}

/// True of a limit of barns that no barn of the load comes near.
fn is_beyond(key: ReplayKey, value: &str) -> bool {
    let is_of_barns = matches!(key, ReplayKey::MaxFullSheaves | ReplayKey::MaxEmptySheaves);
    is_of_barns && ["7", "300", "64:3,page:1"].contains(&value)
}

/// The machine on which a setting is walked: on pages of 4 KiB, orders by bytes are those by pages.
fn machine(key: ReplayKey) -> Machine {
    let page_size = if key == ReplayKey::OrderRule { 65536 } else { MACHINE.page_size };
    Machine { page_size, ..MACHINE }
}

/// What a setting is set beside, without which it is refused.
fn beside(key: ReplayKey) -> Option<&'static str> {
    (key == ReplayKey::PressureMs).then_some("reclaim=2.4")
}

type Set = dyn Fn(&mut Settings, &str) -> Result<(), SettingError>;

/// How many values changed something, and were refused; and those that were neither.
#[derive(Default)]
struct Walked {
    changed: u32,
    refused: u32,
    silent: Vec<String>,
}

/// Sets each value of a row on each engine and release.
fn walk(bench: &mut Bench, row: &ReplayRow, set: &Set) -> Walked {
    let mut walked = Walked::default();
    for engine in EngineName::ALL.iter().copied() {
        for release in RELEASES {
            let begin = || {
                let mut settings = Settings::new(release, machine(row.key));
                let tiny = (engine == EngineName::Tiny).then_some("tiny=1");
                for text in tiny.into_iter().chain(beside(row.key)) {
                    settings.set(text).expect("it is one");
                }
                settings
            };
            let base = begin();
            // None where the release has no such engine.
            let known = base.validate_on(engine).ok().filter(|()| engine != EngineName::Slob);
            let known = known.map(|()| bench.outcome(engine, &base));
            for value in values(row) {
                let text = format!("{}={value}", row.name);
                let at = format!("{text} with {} of {}", engine.row().name, release.name);
                let mut settings = begin();
                let done = set(&mut settings, &text).and_then(|()| settings.validate_on(engine));
                if let Err(why) = done {
                    let told = why.to_string();
                    let helps = ["leave", "take", "set that", "must be", "change one"];
                    assert!(helps.iter().any(|word| told.contains(word)), "{at}: {told}");
                    walked.refused += 1;
                    continue;
                }
                let Some(known) = &known else {
                    walked.silent.push(at);
                    continue;
                };
                let differs = bench.outcome(engine, &settings) != *known;
                let default = is_default(row.key, &value, release, engine);
                assert!(!(differs && default), "{at} is what the release has, and changes it");
                walked.changed += u32::from(differs);
                if !differs && !default && !is_beyond(row.key, &value) {
                    walked.silent.push(at);
                }
            }
        }
    }
    walked
}

#[test]
fn each_setting_changes_something_or_is_refused() {
    let mut bench = Bench::new();
    let (mut changed, mut refused, mut silent) = (0, 0, Vec::new());
    for row in REPLAYED {
        let walked = walk(&mut bench, row, &|settings, text| settings.set(text));
        assert!(walked.changed > 0, "{} changes nothing anywhere", row.name);
        (changed, refused) = (changed + walked.changed, refused + walked.refused);
        silent.extend(walked.silent);
    }
    assert_eq!(silent, [""; 0], "taken, and without effect");
    println!("{changed} settings changed something, {refused} were refused");
    assert!(changed > 300 && refused > 1000, "{changed} changed, {refused} refused");
}

/// The walk finds a setting that is taken and ignored, whichever it is.
#[test]
fn a_setting_that_is_taken_and_ignored_is_found() {
    let mut bench = Bench::new();
    for row in REPLAYED {
        let ignores = |settings: &mut Settings, text: &str| settings.clone().set(text);
        let walked = walk(&mut bench, row, &ignores);
        assert!(!walked.silent.is_empty(), "{} was ignored, and nobody saw it", row.name);
    }
}
