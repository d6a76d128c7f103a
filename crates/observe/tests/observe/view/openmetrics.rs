//! OpenMetrics text, parsed by a strict parser of our own and by the reference parser.

use super::scene::{is_as, kernel, process, text};
use crate::skipped::skip;
use slabyard_observe::fields::{Field, TOTALS};
use slabyard_observe::snapshot::{Source, SourceKind};
use slabyard_observe::view::openmetrics::write;
use slabyard_observe::{Cache, Snapshot, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

#[test]
fn a_kernel_and_a_process() {
    is_as("export-kernel.txt", &text(|out| write(out, &kernel(), 2)));
    is_as("export-process.txt", &text(|out| write(out, &process(), 10)));
}

#[test]
fn the_text_is_open_metrics() {
    for snapshot in [kernel(), process(), Snapshot::new(Source::of(SourceKind::Kernel))] {
        let text = text(|out| write(out, &snapshot, 10));
        read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
}

#[test]
fn both_ends_of_a_range_are_series() {
    let series = read(&text(|out| write(out, &kernel(), 10))).unwrap();
    let value = |labels: &str| series[&format!("slabyard_cache_live_objects{labels}")].as_str();
    assert_eq!(value("{cache=\"dentry\",bound=\"low\"}"), "928");
    assert_eq!(value("{cache=\"dentry\",bound=\"high\"}"), "1201");
    assert_eq!(value("{cache=\"task_struct\",bound=\"low\"}"), "117");
    assert_eq!(series["slabyard_slab_bytes"], (67_636 << 10).to_string());
    assert!(!series.keys().any(|k| k.contains("secret")), "what is unknown is no series");
}

#[test]
fn a_name_is_escaped() {
    let mut snapshot = process();
    snapshot.caches[0].name = "a\"b\\c\nd".into();
    let text = text(|out| write(out, &snapshot, 10));
    let series = read(&text).unwrap();
    let key = r#"slabyard_cache_bytes{cache="a\"b\\c\nd"}"#;
    assert!(series.contains_key(key), "{text}");
}

#[test]
fn ten_caches_give_four_series_each_and_totals_one_or_two() {
    for kind in [SourceKind::Kernel, SourceKind::Process] {
        let mut snapshot = Snapshot::new(Source::of(kind));
        snapshot.source.release = Some("6.12".into());
        for nth in 0..235 {
            let mut cache = Cache::new(format!("c{nth}"));
            for name in ["slabs", "bytes", "objects", "cpu_slabs", "objs_per_slab", "slab_size"] {
                cache.set(name, nth + 1);
            }
            if kind == SourceKind::Process {
                cache.set("live", 1);
                cache.set("parked_cpu", 1);
                cache.set("parked_node", 1);
            }
            snapshot.caches.push(cache);
        }
        let of_kernel = ["slab", "mem_", "maybe_parked"];
        let is_kernels = |name: &str| of_kernel.iter().any(|begin| name.starts_with(begin));
        // Reports alone have those of a watch.
        let of_either = TOTALS.iter().filter(|t| !t.name.starts_with("pressure_"));
        let is_there = |t: &&Field| is_kernels(t.name) == (kind == SourceKind::Kernel);
        let totals: Vec<&Field> = of_either.filter(is_there).collect();
        for total in &totals {
            snapshot.totals.insert(total.name.into(), Value::Exact(1));
        }
        let text = text(|out| write(out, &snapshot, 10));
        let series = text.lines().filter(|l| l.starts_with("slabyard_")).count();
        // Four of each cache, their number, and one of each total, of which two may be ranges.
        assert!((41..=41 + totals.len() + 2).contains(&series), "{series}\n{text}");
        assert!(text.contains("c234\"") && !text.contains("c224\""), "the largest are kept");
    }
}

#[test]
fn the_reader_of_this_test_refuses_what_is_wrong() {
    let good = "# HELP a_bytes x\n# TYPE a_bytes gauge\n# UNIT a_bytes bytes\na_bytes 1\n# EOF\n";
    assert!(read(good).is_ok());
    for (from, to) in [
        ("# EOF\n", ""),
        ("# EOF\n", "# EOF\n\n"),
        ("a_bytes 1\n", "a_bytes 1\na_bytes 1\n"),
        ("a_bytes 1\n", "b_bytes 1\n"),
        ("a_bytes 1\n", "a_bytes one\n"),
        ("a_bytes 1\n", "a_bytes{c=\"a\"b\"} 1\n"),
        ("a_bytes 1\n", "a_bytes{c=\"x\\y\"} 1\n"),
        ("# UNIT a_bytes bytes", "# UNIT a_bytes objects"),
        ("# TYPE a_bytes gauge\n", ""),
    ] {
        assert!(read(&good.replace(from, to)).is_err(), "{from} as {to}");
    }
}

#[test]
fn the_reference_reader_takes_it() {
    let has = Command::new("python3").args(["-c", "import prometheus_client"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        return skip("python3 has no prometheus_client");
    }
    let program = "import sys\n\
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as read\n\
        print(sum(len(f.samples) for f in read(sys.stdin.read())))";
    for snapshot in [kernel(), process()] {
        let text = text(|out| write(out, &snapshot, 10));
        let mut python = Command::new("python3");
        python.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = python.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{text}");
        let counted = String::from_utf8(output.stdout).unwrap();
        assert_eq!(counted.trim(), read(&text).unwrap().len().to_string());
    }
}

/// Series and values of a text of gauges, by the rules of OpenMetrics 1.0: families in
/// one piece with HELP, TYPE and UNIT that fit their names, no series twice, escapes
/// that exist, `# EOF` at the very end.
fn read(text: &str) -> Result<BTreeMap<String, String>, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("no # EOF at the end")?;
    let (mut series, mut seen) = (BTreeMap::new(), BTreeSet::new());
    let (mut family, mut described) = (String::new(), BTreeSet::new());
    for line in body.lines() {
        let wrong = |what: &str| Err(format!("{what}: {line}"));
        if let Some(about) = line.strip_prefix("# ") {
            let mut words = about.splitn(3, ' ');
            let [Some(what), Some(name), Some(text)] = [(); 3].map(|()| words.next()) else {
                return wrong("no HELP, TYPE or UNIT");
            };
            if name != family {
                if !seen.insert(name.to_owned()) {
                    return wrong("a family in two pieces");
                }
                family = name.to_owned();
                described.clear();
            }
            let fits = match what {
                "HELP" => !text.is_empty(),
                "TYPE" => text == "gauge",
                "UNIT" => name.ends_with(&format!("_{text}")),
                _ => false,
            };
            if !fits || !described.insert(what.to_owned()) {
                return wrong("does not fit");
            }
            continue;
        }
        let (key, value) = line.rsplit_once(' ').ok_or(format!("no value: {line}"))?;
        let name = key.split('{').next().unwrap_or(key);
        let is_name = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if name != family || !is_name || !described.contains("TYPE") {
            return wrong("not of the family");
        }
        if value.parse::<f64>().is_err() {
            return wrong("no number");
        }
        if let Some(labels) = key.strip_prefix(name).filter(|l| !l.is_empty()) {
            let labels = labels.strip_prefix('{').and_then(|l| l.strip_suffix('}'));
            if !labels.is_some_and(are_labels) {
                return wrong("labels");
            }
        }
        if series.insert(key.to_owned(), value.to_owned()).is_some() {
            return wrong("a series twice");
        }
    }
    Ok(series)
}

/// `a="b",c="d"` with `\\`, `\"` and `\n` alone as escapes.
fn are_labels(mut rest: &str) -> bool {
    loop {
        let Some((name, after)) = rest.split_once("=\"") else { return rest.is_empty() };
        let is_name = |b: u8| b.is_ascii_lowercase() || b == b'_';
        if name.is_empty() || !name.bytes().all(is_name) {
            return false;
        }
        let mut bytes = after.bytes().enumerate();
        let end = loop {
            match bytes.next() {
                Some((_, b'\\')) => match bytes.next() {
                    Some((_, b'\\' | b'"' | b'n')) => {}
                    _ => return false,
                },
                Some((at, b'"')) => break at,
                Some((_, b'\n')) | None => return false,
                Some(_) => {}
            }
        };
        rest = &after[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return rest.is_empty(),
        }
    }
}

#[test]
fn what_was_counted_is_a_counter_of_all_caches() {
    let mut snapshot = Snapshot::new(Source::of(SourceKind::Process));
    for (name, slow) in [("malloc-64", 7u64), ("malloc-96", 5)] {
        let mut cache = Cache::new(name);
        cache.set("alloc_slowpath", slow);
        cache.set("list_lock", 0);
        cache.set("drain_1", 3);
        snapshot.caches.push(cache);
    }
    let text = text(|out| write(out, &snapshot, 10));
    for line in [
        "# TYPE slabyard_slow_path_events counter",
        "slabyard_slow_path_events_total{event=\"alloc_slowpath\"} 12",
        "slabyard_slow_path_events_total{event=\"list_lock\"} 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
    assert!(!text.contains("drain_1"));
}
