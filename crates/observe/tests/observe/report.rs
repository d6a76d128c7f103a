//! Tests the reader of reports against the writer that the library uses.

use proptest::prelude::*;
use slabyard_abi::counters::{CACHE_FIELDS, CacheCounters, ReportField, YARD_FIELDS, YardCounters};
use slabyard_abi::pressure::PressureCounter;
use slabyard_abi::report::{VERSION, Writer};
use slabyard_abi::stats;
use slabyard_observe::fields::{TOTALS, field};
use slabyard_observe::report::{Damage, ReadError, parse};
use slabyard_observe::snapshot::{Source, SourceKind};
use slabyard_observe::{Cache, Snapshot, Value};

fn written(pid: u32, yard: &YardCounters, caches: &[(String, CacheCounters)]) -> String {
    let mut out = String::new();
    let mut writer = Writer::new(&mut out).unwrap();
    writer.process(pid).unwrap();
    writer.yard(yard).unwrap();
    for (name, counters) in caches {
        writer.cache(name, counters).unwrap();
    }
    writer.end().unwrap();
    out
}

fn damage(text: &str) -> (usize, Damage) {
    match parse(text.as_bytes()) {
        Err(ReadError::Damaged { line, what }) => (line, what),
        other => panic!("{text:?} gave {other:?}"),
    }
}

fn counters<T: Default + std::fmt::Debug>(
    fields: &'static [ReportField<T>],
) -> impl Strategy<Value = T> {
    prop::collection::vec(any::<u64>(), fields.len()).prop_map(|values| {
        let mut counters = T::default();
        for (field, value) in fields.iter().zip(values) {
            (field.set)(&mut counters, value);
        }
        counters
    })
}

fn caches() -> impl Strategy<Value = Vec<(String, CacheCounters)>> {
    let name = "[a-zA-Z:_-][a-zA-Z0-9:._-]{0,20}";
    prop::collection::vec((name, counters(CACHE_FIELDS)), 0..6)
}

proptest! {
    #[test]
    fn what_the_writer_writes_is_read_back(
        pid: u32, yard in counters(YARD_FIELDS), caches in caches(),
    ) {
        let mut snapshot = parse(written(pid, &yard, &caches).as_bytes()).unwrap();
        let mut want = Snapshot::new(Source { pid: Some(pid), ..Source::of(SourceKind::Report) });
        want.totals =
            YARD_FIELDS.iter().map(|f| (f.field.name.into(), Value::Exact((f.get)(&yard)))).collect();
        for (name, counters) in caches {
            let mut cache = Cache::new(name);
            CACHE_FIELDS.iter().for_each(|f| cache.set(f.field.name, (f.get)(&counters)));
            want.caches.push(cache);
        }
        // A report does not say when it was written.
        snapshot.taken_at_ms = want.taken_at_ms;
        prop_assert_eq!(snapshot, want);
    }

    #[test]
    fn a_truncated_report_never_parses_as_whole(
        pid: u32, yard in counters(YARD_FIELDS), caches in caches(),
        at in any::<prop::sample::Index>(),
    ) {
        let text = written(pid, &yard, &caches);
        let cut = &text.as_bytes()[..at.index(text.len())];
        let truncated = matches!(parse(cut), Err(ReadError::Truncated { .. }));
        prop_assert!(truncated);
    }

    #[test]
    fn a_lost_line_is_noticed(
        yard in counters(YARD_FIELDS), caches in caches(),
        at in any::<prop::sample::Index>(),
    ) {
        let text = written(1, &yard, &caches);
        let mut lines: Vec<_> = text.lines().collect();
        lines.remove(at.index(lines.len()));
        let text: String = lines.iter().map(|l| format!("{l}\n")).collect();
        prop_assert!(parse(text.as_bytes()).is_err());
    }

    #[test]
    fn any_bytes_end_in_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut text = b"slabyard-report 1\n".to_vec();
        text.extend(&bytes);
        let _ = (parse(&bytes), parse(&text));
    }
}

#[test]
fn the_engine_has_its_name_and_a_later_one_its_number() {
    for (engine, want) in [
        (1, Value::Text("slub".into())),
        (2, Value::Text("tiny".into())),
        (u64::MAX, Value::Exact(u64::MAX)),
    ] {
        let yard = YardCounters { engine, ..YardCounters::default() };
        let snapshot = parse(written(42, &yard, &[]).as_bytes()).unwrap();
        assert_eq!(snapshot.total("engine"), Some(&want));
    }
    // Before there were several, reports named none.
    let old = b"slabyard-report 1\nyard live=64\nend 1\n";
    assert_eq!(parse(old).unwrap().total("engine"), None);
}

#[test]
fn every_prefix_of_a_report_is_truncated() {
    let text = written(42, &YardCounters::default(), &[("c".into(), CacheCounters::default())]);
    for at in 0..text.len() {
        let got = parse(&text.as_bytes()[..at]);
        assert!(matches!(got, Err(ReadError::Truncated { .. })), "{at}: {got:?}");
    }
    assert!(parse(text.as_bytes()).is_ok());
}

#[test]
fn other_files_are_named_as_such() {
    assert_eq!(parse(b"\x7fELF\n"), Err(ReadError::NotAReport));
    assert_eq!(parse(b"slabyard-reporter 1\nend 0\n"), Err(ReadError::NotAReport));
    assert_eq!(parse(b"\nslabyard-report 1\nend 0\n"), Err(ReadError::NotAReport));
}

#[test]
fn a_newer_version_is_refused_and_earlier_ones_are_taken() {
    let report = |version| parse(format!("slabyard-report {version}\nend 0\n").as_bytes());
    assert_eq!(report(VERSION + 1), Err(ReadError::Newer { found: VERSION + 1 }));
    for version in 1..=VERSION {
        let snapshot = report(version).unwrap();
        assert!(snapshot.caches.is_empty() && snapshot.totals.is_empty(), "{snapshot:?}");
    }
    assert_eq!(damage("slabyard-report 0\nend 0\n"), (1, Damage::Version));
    assert_eq!(damage("slabyard-report one\nend 0\n"), (1, Damage::Version));
}

#[test]
fn unknown_lines_and_keys_are_skipped_and_missing_keys_are_unknown() {
    let text = "slabyard-report 1\nweather sunny\nprocess pid=9 program=a b\n\
                yard live=1 colour=blue\ncache c slabs=2 future=many\nend 4\n";
    let snapshot = parse(text.as_bytes()).unwrap();
    assert_eq!(snapshot.source.pid, Some(9));
    let told: Vec<_> = snapshot.totals.iter().map(|(name, v)| (name.as_str(), v.exact())).collect();
    assert_eq!(told, [("live", Some(1))]);
    let told: Vec<_> = snapshot.caches[0].readings.keys().collect();
    assert_eq!(told, ["slabs"]);
    assert_eq!(snapshot.caches[0].exact("slabs"), Some(2));
    assert_eq!(snapshot.caches[0].exact("live"), None);
}

#[test]
fn a_name_in_a_report_is_a_name_of_the_tables() {
    assert!(CacheCounters::NAMES.iter().all(|name| field(name).is_some()));
    let is_total = |name: &&str| TOTALS.iter().any(|total| total.name == *name);
    assert!(YardCounters::NAMES.iter().all(is_total));
}

#[test]
fn damage_is_named_with_its_line() {
    let first = |line: &str| damage(&format!("slabyard-report 1\n{line}\nend 1\n"));
    assert_eq!(first("yard live=-1"), (2, Damage::Pair("live=-1".into())));
    assert_eq!(first("yard live=+1"), (2, Damage::Pair("live=+1".into())));
    assert_eq!(first("yard live"), (2, Damage::Pair("live".into())));
    assert_eq!(first("yard live="), (2, Damage::Pair("live=".into())));
    let large = "live=18446744073709551616";
    assert_eq!(first(&format!("yard {large}")), (2, Damage::Pair(large.into())));
    assert_eq!(first("yard live=1 live=1"), (2, Damage::Twice("live".into())));
    assert_eq!(first("process pid=4294967296"), (2, Damage::Pair("pid=4294967296".into())));
    assert_eq!(first("cache"), (2, Damage::NoName));
    assert_eq!(first("cache live=1"), (2, Damage::NoName));
    assert_eq!(first("cache a\x1b[31m live=1"), (2, Damage::NotText));
    assert_eq!(
        damage("slabyard-report 1\nyard live=1\nyard live=1\nend 2\n"),
        (3, Damage::Twice("yard".into()))
    );
    assert_eq!(damage("slabyard-report 1\nend 1\n"), (2, Damage::Count { counted: 1, lines: 0 }));
    assert_eq!(damage("slabyard-report 1\nend\n"), (2, Damage::End));
    assert_eq!(damage("slabyard-report 1\nend 0\nx\n"), (3, Damage::AfterEnd));
}

#[test]
fn errors_speak_of_the_line() {
    let error = parse(b"slabyard-report 1\nyard live=x\n").unwrap_err();
    assert_eq!(error.to_string(), "line 2: damaged: `live=x` is not KEY=NUMBER");
    let error = parse(b"slabyard-report 1\nyard").unwrap_err();
    assert_eq!(error.to_string(), "line 2: the report is truncated");
}

#[test]
fn what_a_cache_counted_is_told_by_the_names_of_its_words() {
    let cache = CacheCounters { live: 7, ..CacheCounters::default() };
    let mut counts = [0; stats::CACHE_WORDS];
    counts[stats::Counter::FreeSlowpath as usize] = 12;
    counts[stats::drain_words(2)[2]] = 900;
    let mut out = String::new();
    let mut writer = Writer::new(&mut out).unwrap();
    writer.cache("malloc-64", &cache).unwrap();
    writer.counts("malloc-64", &counts).unwrap();
    writer.counts("malloc-64", &[0; stats::CACHE_WORDS]).unwrap();
    writer.end().unwrap();
    assert_eq!(out.lines().count(), 4, "{out}");
    let snapshot = parse(out.as_bytes()).unwrap();
    let cache = snapshot.cache("malloc-64").unwrap();
    let told = ["free_slowpath", "drain_2_longest_ns", "alloc_slowpath", "live"];
    assert_eq!(told.map(|name| cache.exact(name)), [Some(12), Some(900), None, Some(7)]);
    // A count takes no other number's place, and belongs to a cache that came before.
    let parsed = parse(b"slabyard-report 1\ncache a live=1\ncounts a live=9 free_slab=2\nend 2\n");
    let cache = &parsed.unwrap().caches[0];
    assert_eq!((cache.exact("live"), cache.exact("free_slab")), (Some(1), Some(2)));
    let text = "slabyard-report 1\ncounts b free_slab=2\nend 1\n";
    assert_eq!(damage(text), (2, Damage::NoName));
}

#[test]
fn what_a_watch_counted_is_a_total_wherever_its_line_stands() {
    let counts: [u64; PressureCounter::NAMES.len()] = std::array::from_fn(|nth| 10 + nth as u64);
    let yard = YardCounters { live: 7, ..YardCounters::default() };
    let mut out = String::new();
    let mut writer = Writer::new(&mut out).unwrap();
    writer.pressure(&counts).unwrap();
    writer.yard(&yard).unwrap();
    writer.end().unwrap();
    let snapshot = parse(out.as_bytes()).unwrap();
    assert_eq!(snapshot.total("live"), Some(&7.into()));
    for (name, n) in PressureCounter::NAMES.iter().zip(counts) {
        assert_eq!(snapshot.total(name), Some(&n.into()), "{name}");
        assert!(TOTALS.iter().any(|total| total.name == *name), "{name} is shown");
    }
    let twice = "slabyard-report 1\npressure pressure_ns=1\npressure pressure_ns=2\nend 2\n";
    assert_eq!(damage(twice), (3, Damage::Twice("pressure".into())));
}
