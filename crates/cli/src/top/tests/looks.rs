//! Made-up samples of a kernel and of a process, the same in each run.

use crate::top::app::{App, Start};
use crate::top::columns::Column;
use crate::top::filter::Filter;
use crate::top::pane::Pane;
use ratatui::crossterm::event::KeyCode;
use slabyard_observe::snapshot::{Missing, Source, SourceKind};
use slabyard_observe::{Cache, Snapshot, Value};
use slabyard_owners::{Activity, CacheRate, Cgroup, Cost, Losses, Process, Site};
use std::time::Duration;

/// 2026-03-01 12:00:00 UTC.
const NOON_MS: u64 = 1_772_366_400_000;

/// A kernel, `second` seconds after the first look.
pub fn kernel(second: u64) -> Snapshot {
    let mut snapshot =
        Snapshot::new(Source { release: Some("6.18.44".into()), ..Source::of(SourceKind::Kernel) });
    snapshot.taken_at_ms = NOON_MS + second * 1000;
    snapshot.took_ns = Some(12_300_000);
    snapshot.machine.page_bytes = Some(4096);
    let kernel_cache = |name: &str, size: u64, order: u64, slabs: u64, free: u64, held: u64| {
        let mut cache = Cache::new(name);
        let objects = (4096 << order) / size;
        cache.set("object_size", size);
        cache.set("slab_size", size);
        cache.set("order", order);
        cache.set("objs_per_slab", objects);
        cache.set("slabs", slabs);
        cache.set("total_objects", slabs * objects);
        cache.set("objects", slabs * objects - free);
        cache.set("partial", free.div_ceil(objects));
        cache.set("cpu_slabs", held);
        cache.set("min_partial", 5);
        cache.set("cpu_partial", 120);
        cache
    };
    let mut dentry = kernel_cache("dentry", 192, 0, 8_712 + second * 3, 123, 64);
    dentry.aliases = vec!["fake_alias".into()];
    dentry.id = Some(":0000192".into());
    snapshot.caches = vec![
        dentry,
        kernel_cache("inode_cache", 632, 2, 1_208, 0, 24),
        kernel_cache("ext4_inode_cache", 1_128, 3, 3_011 - second, 411 + second, 40),
        kernel_cache("kmalloc-64", 64, 0, 512, 17 * second, 12),
        kernel_cache("kmalloc-cg-4k", 4096, 3, 96, 4, 9),
        kernel_cache("fsnotify_mark_connector", 32, 0, 4, 0, 2),
    ];
    for (name, kib) in [
        ("slab", 88_412 + second),
        ("slab_reclaimable", 61_340),
        ("slab_unreclaimable", 27_072 + second),
        ("mem_total", 16_303_412),
        ("mem_free", 9_123_000),
        ("mem_available", 13_880_120),
    ] {
        snapshot.totals.insert(name.into(), Value::Exact(kib << 10));
    }
    snapshot
}

/// The same to somebody else than root: two files less.
pub fn kernel_to_a_user(second: u64) -> Snapshot {
    let mut snapshot = kernel(second);
    for cache in &mut snapshot.caches {
        for name in ["cpu_slabs", "objects"] {
            cache.readings.remove(name);
        }
    }
    for what in ["objects", "cpu_slabs"] {
        snapshot.missing.push(Missing { what: what.into(), why: "for root alone".into() });
    }
    snapshot
}

/// A process, `second` seconds after the first look.
pub fn process(second: u64) -> Snapshot {
    let mut snapshot = Snapshot::new(Source {
        pid: Some(4711),
        program: Some("python3".into()),
        ..Source::of(SourceKind::Process)
    });
    snapshot.taken_at_ms = NOON_MS + second * 1000;
    snapshot.took_ns = Some(812_000);
    snapshot.machine.page_bytes = Some(4096);
    let malloc = |size: u64, slabs: u64, live: u64, slow_paths: u64| {
        let mut cache = Cache::new(format!("malloc-{size}"));
        let objects = 4096 / size;
        let (cpu, node) = (live / 10, live / 20);
        cache.set("object_size", size);
        cache.set("slab_size", size);
        cache.set("order", 0);
        cache.set("objs_per_slab", objects);
        cache.set("slabs", slabs);
        cache.set("total_objects", slabs * objects);
        cache.set("live", live);
        cache.set("parked_cpu", cpu);
        cache.set("parked_node", node);
        cache.set("in_transit", 0);
        cache.set("free_partial", slabs * objects - live - cpu - node);
        cache.set("partial", slabs / 4);
        cache.set("empty", slabs / 20);
        cache.set("slow_paths", slow_paths);
        cache.set("sheaf_capacity", 60);
        cache.set("min_partial", 5);
        cache.set("barn_full_limit", 10);
        cache.set("barn_empty_limit", 10);
        cache
    };
    let wave = [0, 40, 90, 120, 90, 40, 0, 10, 30, 20];
    let up = wave[usize::try_from(second % 10).unwrap()];
    let mut busy = malloc(64, 420 + up, 21_000 + 50 * up, 9_000 + 1_200 * second);
    busy.fullness = Some(vec![(1, 3), (5, 1), (20, 1), (22, 1), (31, 1), (60, 1), (62, 3)]);
    let mut torn = malloc(512, 300, 2_000, 40_000 + 7 * second);
    torn.set("live", Value::Range(1_990, 2_010));
    torn.set("slabs", Value::Range(298, 302));
    snapshot.caches = vec![malloc(16, 12, 2_500, 70), busy, malloc(96, 80, 2_400, 200), torn];
    for (name, bytes) in [
        ("live", 2_754_368),
        ("parked_cpu", 275_436),
        ("parked_node", 137_718),
        ("in_transit", 0),
        ("free_partial", 164_366),
        ("padding", 12_288),
        ("runs", 1_982_464),
        ("mapped", 4_198_400),
        ("parked_pages", 65_536),
        ("free_runs", 524_288),
        ("metadata", 393_216),
        ("committed", 10_508_080),
        ("returned", 262_144),
        ("resident", 17_301_504),
    ] {
        snapshot.totals.insert(name.into(), Value::Exact(bytes));
    }
    snapshot
}

/// An app after `looks` looks, one a second.
pub fn app(look: fn(u64) -> Snapshot, looks: u64) -> App {
    let start = Start {
        interval: Duration::from_secs(1),
        sort: Column::named("bytes").unwrap(),
        filter: Filter::default(),
        pane: Pane::Closed,
    };
    let mut app = App::new(start, look(0));
    for second in 1..looks {
        app.take(look(second), Duration::from_secs(second));
    }
    app
}

/// What was counted of the kernel in a second.
pub fn activity() -> Activity {
    let cache = |cache: &str, allocations, frees, bytes| CacheRate {
        cache: cache.into(),
        allocations: Some(allocations),
        frees: Some(frees),
        bytes: Some(bytes),
        grew_objects: None,
        grew_bytes: None,
    };
    let site = |cache: &str, site: &str, comm: &str, pid, unit: &str, allocations| Site {
        cache: cache.into(),
        site: site.into(),
        process: Process { pid, comm: comm.into(), exe: None, command: None },
        cgroup: Some(Cgroup {
            id: u64::from(pid),
            path: format!("/system.slice/{unit}"),
            unit: Some(unit.into()),
            removed: false,
        }),
        allocations,
        frees: allocations / 3,
        bytes: allocations * 64,
    };
    let cost = Cost { events: 41_000, ns_per_event: 61.0, cpu_share: 0.0031, budget: 0.01 };
    Activity {
        took_ns: 1_000_000_000,
        counted: 1.0,
        caches: vec![
            cache("kmalloc-64", 31_200, 30_400, 1_996_800),
            cache("fake_alias", 800, 2, 153_600),
        ],
        sites: vec![
            site("kmalloc-64", "sock_alloc_send_pskb", "nginx", 812, "nginx.service", 31_200),
            site("fake_alias", "__d_alloc", "find", 4000, "cron.service", 800),
        ],
        cost: Some(cost),
        one_in: 32,
        lost: Losses { missed: 3, ..Losses::default() },
    }
}

/// The pane of call sites, with what was counted.
pub fn with_sites(mut app: App) -> App {
    super::keys::press(&mut app, &[KeyCode::Char('w')]);
    app.count(Some(Ok(activity())));
    app
}
