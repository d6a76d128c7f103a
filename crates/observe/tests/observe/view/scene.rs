//! Fixed snapshots, and the comparison of a view's output with the file of that name.

use slabyard_observe::snapshot::{Machine, Missing, Slab, Source, SourceKind};
use slabyard_observe::value::Reading;
use slabyard_observe::view::{Colour, Style, Units};
use slabyard_observe::{Cache, Snapshot, Value};
use std::io::{self, Write};
use std::path::Path;

pub const HUMAN: Style = Style { units: Units::Human, colour: Colour::No, width: None };

/// What a view writes.
pub fn text(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Compares with a file, or writes it.
pub fn is_as(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/observe/view/golden").join(name);
    if std::env::var_os("SLABYARD_BLESS").is_some() {
        return std::fs::write(path, text).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == want,
        "{name} is another; look at it, and if it is right run this test with \
         SLABYARD_BLESS=1\n--- wanted\n{want}\n--- found\n{text}"
    );
}

/// JSON without what is unknown, which is most of it and grows with the table of fields.
pub fn known(json: &str) -> String {
    let is_known = |line: &&str| !line.trim_end_matches(',').ends_with(": null");
    json.lines().filter(is_known).map(|line| format!("{line}\n")).collect()
}

/// A kernel with 4 KiB pages whose caches show what a kernel can show.
pub fn kernel() -> Snapshot {
    let source = Source { release: Some("6.12.9".into()), ..Source::of(SourceKind::Kernel) };
    let mut snapshot = Snapshot::new(source);
    snapshot.taken_at_ms = 1_760_000_000_123;
    snapshot.took_ns = Some(12_345_678);
    snapshot.machine = Machine {
        page_bytes: Some(4096),
        possible_cpus: Some(2),
        online_cpus: Some(2),
        nodes: Some(1),
    };
    let mut dentry = of_kernel("dentry", 0, 21, 192, [61, 1281, 1201, 6, 13]);
    dentry.set("partial", parts(6, &[(0, 6)], &[]));
    dentry.set("cpu_slabs", parts(13, &[(0, 13)], &[]));
    dentry.set("slabs_cpu_partial", parts(11, &[], &[(0, 5), (1, 6)]));
    dentry.set("ctor", Value::Text(String::new()));
    dentry.set("reclaim_account", 1);
    dentry.set("destroy_by_rcu", 0);
    dentry.set("min_partial", 5);
    dentry.set("cpu_partial", 120);
    snapshot.caches.push(dentry);
    let mut merged = of_kernel("kmalloc-rcl-64", 0, 64, 64, [3, 192, 192, 0, 2]);
    merged.id = Some(":0000064".into());
    merged.aliases = vec!["eventpoll_epi".into(), "fsnotify_mark".into()];
    merged.set("aliases", 2);
    snapshot.caches.push(merged);
    snapshot.caches.push(of_kernel("task_struct", 3, 3, 9856, [40, 120, 117, 1, 0]));
    snapshot.caches.push(of_kernel("biovec-max", 3, 8, 4096, [0, 0, 0, 0, 0]));
    // What sysfs alone lists, read without the right to.
    snapshot.caches.push(Cache::new("secret"));
    let totals = [
        ("slab", 67_636 << 10),
        ("slab_reclaimable", 30_000 << 10),
        ("slab_unreclaimable", 37_636 << 10),
        ("mem_total", 16 << 30),
    ];
    tell_totals(&mut snapshot, &totals);
    snapshot.missing = vec![Missing {
        what: "sheaf_capacity".into(),
        why: "this kernel (6.12) has no such attribute".into(),
    }];
    slabyard_observe::hidden::sum(&mut snapshot);
    snapshot
}

/// A process whose places add up, with something in transit.
pub fn process() -> Snapshot {
    let source = Source {
        pid: Some(4711),
        program: Some("python3".into()),
        ..Source::of(SourceKind::Process)
    };
    let mut snapshot = Snapshot::new(source);
    snapshot.taken_at_ms = 1_760_000_000_000;
    snapshot.machine = Machine {
        page_bytes: Some(4096),
        possible_cpus: Some(2),
        online_cpus: Some(2),
        nodes: Some(1),
    };
    let mut cache = of_process("malloc-64", 64, 64, [5, 190, 60, 30, 40]);
    cache.set("parked_cpu", parts(60, &[], &[(0, 60), (1, 0)]));
    cache.set("partial", 3);
    cache.set("empty", 1);
    cache.set("slow_paths", 4242);
    cache.set("sheaf_capacity", 60);
    cache.set("min_partial", 5);
    cache.fullness = Some(vec![(0, 1), (1, 1), (60, 1)]);
    let slab = |page, inuse| Slab { page, objects: 64, inuse, ..Slab::default() };
    cache.slabs =
        Some(vec![slab(0x7f12_3456_7000, 60), slab(0x7f12_3456_9000, 0), slab(0x7f12_0000, 1)]);
    snapshot.caches.push(cache);
    let mut moving = of_process("malloc-96", 42, 96, [2, 0, 0, 0, 54]);
    moving.set("live", Value::Range(20, 30));
    moving.set("in_transit", Value::Range(0, 10));
    snapshot.caches.push(moving);
    snapshot.caches.push(of_process("malloc-8", 512, 8, [0, 0, 0, 0, 0]));
    let totals = [
        ("parked_cpu", 60 * 64),
        ("parked_node", 30 * 64),
        ("free_partial", 40 * 64 + 54 * 96),
        ("padding", 2 * 64),
        ("runs", 8192),
        ("mapped", 1 << 20),
        ("parked_pages", 0),
        ("free_runs", 4096),
        ("metadata", 65536),
        ("committed", 1_155_072),
        ("returned", 4096),
        ("resident", 9 << 20),
        ("nr_runs", 2),
        ("nr_mapped", 1),
        ("set_aside", 0),
        ("mode", 1),
    ];
    tell_totals(&mut snapshot, &totals);
    let of_live = Value::Range(190 * 64 + 20 * 96, 190 * 64 + 30 * 96);
    snapshot.totals.insert("live".into(), of_live);
    snapshot.totals.insert("in_transit".into(), Value::Range(0, 10 * 96));
    snapshot
}

pub fn cache<'a>(snapshot: &'a Snapshot, name: &str) -> &'a Cache {
    snapshot.cache(name).unwrap()
}

fn tell_totals(snapshot: &mut Snapshot, totals: &[(&str, u64)]) {
    for (name, value) in totals {
        snapshot.totals.insert((*name).into(), Value::Exact(*value));
    }
}

fn parts(value: u64, nodes: &[(u32, u64)], cpus: &[(u32, u64)]) -> Reading {
    let exact = |parts: &[(u32, u64)]| parts.iter().map(|(n, v)| (*n, (*v).into())).collect();
    Reading { value: value.into(), nodes: exact(nodes), cpus: exact(cpus) }
}

fn of_kernel(name: &str, order: u64, objs: u64, size: u64, counts: [u64; 5]) -> Cache {
    let mut cache = Cache::new(name);
    let [slabs, total, active, partial, cpu_slabs] = counts;
    for (name, value) in [
        ("order", order),
        ("objs_per_slab", objs),
        ("object_size", size),
        ("slab_size", size),
        ("slabs", slabs),
        ("total_objects", total),
        ("objects", active),
        ("partial", partial),
        ("cpu_slabs", cpu_slabs),
    ] {
        cache.set(name, value);
    }
    cache
}

fn of_process(name: &str, objs: u64, size: u64, counts: [u64; 5]) -> Cache {
    let mut cache = Cache::new(name);
    let [slabs, live, cpu, node, free] = counts;
    for (name, value) in [
        ("order", 0),
        ("objs_per_slab", objs),
        ("object_size", size),
        ("slab_size", size),
        ("slabs", slabs),
        ("total_objects", slabs * objs),
        ("live", live),
        ("parked_cpu", cpu),
        ("parked_node", node),
        ("free_partial", free),
        ("in_transit", 0),
        ("bytes", slabs * 4096),
    ] {
        cache.set(name, value);
    }
    cache
}
