//! The table view, as text.

use slabyard_abi::counters::{CacheCounters, YARD_FIELDS, YardCounters};
use slabyard_observe::ended::{Cache, Numbers, Snapshot};
use slabyard_observe::table::{Colour, Style, Units, caches, human, write};

const PLAIN: Style = Style { units: Units::Plain, colour: Colour::No };

fn cache(name: &str, slabs: u64, live: u64) -> Cache {
    let counters = CacheCounters {
        slab_size: 64,
        order: 1,
        slabs,
        live,
        parked_cpu: 3,
        parked_node: 4,
        bytes: slabs * 8192,
        ..Default::default()
    };
    Cache { name: name.into(), numbers: Numbers::all(counters) }
}

fn snapshot() -> Snapshot {
    let yard = YardCounters {
        live: 2_000_000,
        free_runs: 1_000_000,
        metadata: 1_000_000,
        committed: 4_000_000,
        resident: 5_000_000,
        mode: 1,
        ..Default::default()
    };
    Snapshot {
        pid: Some(1),
        yard: Numbers::all(yard),
        caches: vec![
            cache("malloc-32", 0, 0),
            cache("malloc-64", 1, 64),
            cache("malloc-96", 3, 1),
            cache("b-same", 1, 2),
        ],
    }
}

fn text(snapshot: &Snapshot, style: Style) -> String {
    let mut out = Vec::new();
    write(&mut out, snapshot, style).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn caches_with_slabs_are_sorted_by_bytes_then_name() {
    let snapshot = snapshot();
    let (shown, hidden) = caches(&snapshot);
    let names: Vec<_> = shown.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["malloc-96", "b-same", "malloc-64"]);
    assert_eq!(hidden, 1);
}

#[test]
fn a_plain_table_has_one_line_a_cache_and_sums() {
    let text = text(&snapshot(), PLAIN);
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["name", "live", "parked", "slabs", "order", "bytes", "used"]);
    assert_eq!(rows[1], ["malloc-96", "1", "7", "3", "1", "24576", "0.0026"]);
    assert_eq!(rows[3], ["malloc-64", "64", "7", "1", "1", "8192", "0.5000"]);
    assert_eq!(rows[4], ["total", "67", "28", "5", "40960", "0.1047"]);
    assert_eq!(text.lines().nth(5), Some("1 cache without slabs is not shown"));
}

#[test]
fn the_parts_shown_add_up_to_committed() {
    let text = text(&snapshot(), PLAIN);
    let value = |name: &str| {
        let line = text.lines().rfind(|l| l.split_whitespace().next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("no line for {name}"));
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let parts: u64 = YARD_FIELDS.iter().filter(|f| f.part).map(|f| value(f.name)).sum();
    assert_eq!(parts, value("committed"));
    assert_eq!(value("resident"), 5_000_000);
}

#[test]
fn what_is_unknown_is_a_dash_and_stays_visible() {
    let mut snapshot = Snapshot::default();
    snapshot.caches.push(Cache { name: "odd".into(), numbers: Numbers::default() });
    let text = text(&snapshot, PLAIN);
    let row: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["odd", "-", "-", "-", "-", "-", "-"]);
    assert!(text.contains("committed"), "{text}");
}

#[test]
fn colours_appear_only_when_asked_for() {
    let style = Style { units: Units::Human, colour: Colour::Yes };
    assert!(text(&snapshot(), style).contains('\x1b'));
    let style = Style { colour: Colour::No, ..style };
    assert!(!text(&snapshot(), style).contains('\x1b'));
}

#[test]
fn columns_line_up() {
    let text = text(&snapshot(), Style { units: Units::Human, colour: Colour::No });
    let widths: Vec<_> = text.lines().take(5).map(str::len).collect();
    assert!(widths.iter().all(|w| *w == widths[0]), "{text}");
    assert!(text.lines().all(|l| l == l.trim_end()), "{text}");
}

#[test]
fn bytes_are_readable() {
    assert_eq!(human(0), "0 B");
    assert_eq!(human(1023), "1023 B");
    assert_eq!(human(1024), "1.0 KiB");
    assert_eq!(human(1536), "1.5 KiB");
    assert_eq!(human((1 << 20) - 1), "1.0 MiB");
    assert_eq!(human(u64::MAX), "16.0 EiB");
}
