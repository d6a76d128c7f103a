//! Tests what a load's trace contains, and what is said of a text that is none.

use super::*;
use crate::event::EventKind;

const LOAD: &str = r#"
seconds = 0.01
[machine]
release = "7.1"
cpus = 8
nodes = 4
memoryless = "1,3"

[[cache]]
name = "bio"
size = 264

[[tasks]]
cpus = "0-1"
per_second = 20000
allocates = [
    { cache = "bio", lifetime_us = 50, freed_on = "4-5", nowait = true },
    { cache = "bio", count = 2, lifetime_us = [10, 20] },
]
"#;

fn made(text: &str) -> Result<Trace, String> {
    read(text, Path::new(""))
}

#[test]
fn objects_are_allocated_at_the_rate_and_freed_where_and_when_the_load_says() {
    let trace = made(LOAD).unwrap();
    let of = |kind| trace.events.iter().filter(move |event| event.kind == kind);
    let allocated = of(EventKind::CacheAlloc).count();
    // Two tasks, 10 ms, 3 objects each: 1200, as a random process has it.
    assert!((1000..1400).contains(&allocated), "{allocated}");
    assert!(of(EventKind::CacheFree).count() > allocated * 9 / 10);
    assert!(trace.events.is_sorted_by_key(|event| event.time));
    let mut live = std::collections::HashMap::new();
    for event in &trace.events {
        match event.kind {
            EventKind::CacheAlloc => {
                assert_eq!(live.insert(event.address, *event), None, "it was free");
            }
            EventKind::CacheFree => {
                let begun = live.remove(&event.address).unwrap();
                let (us, is_bio) = ((event.time - begun.time) / 1000, begun.gfp == 0x2800);
                assert!(if is_bio { us == 50 } else { (10..=20).contains(&us) });
                assert_eq!(event.cpu, begun.cpu + if is_bio { 4 } else { 0 });
            }
            _ => {}
        }
    }
    assert_eq!(made(LOAD), Ok(trace.clone()), "the same text, the same trace");
    assert_ne!(made(&LOAD.replace("0.01\n", "0.01\nseed = 2\n")).unwrap().events, trace.events);
}

#[test]
fn a_loads_trace_says_what_its_machine_is() {
    let trace = made(LOAD).unwrap();
    let start = &trace.attachment(START).unwrap().bytes;
    let snapshot = &crate::snapshot::KernelSnapshot::parse(start).unwrap()[0];
    let machine = snapshot.machine().unwrap();
    assert_eq!((machine.online_cpus, machine.nodes), (8, 4));
    assert_eq!(machine.memoryless.to_string(), "1,3");
    assert_eq!(snapshot.cache("bio").unwrap().slabs, Some(0));
}

#[test]
fn the_examples_are_loads() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("loads");
    let mut read = 0;
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let trace = open(&entry.path()).unwrap();
        assert!(trace.events.len() > 100_000, "{:?}", entry.path());
        read += 1;
    }
    assert_eq!(read, 3);
}

#[test]
fn what_is_wrong_is_said_with_line_and_key() {
    for (from, to, wanted) in [
        ("seconds = 0.01", "second = 0.01", "line 2: unknown field `second`"),
        ("seconds = 0.01", "seconds = 0", "line 2: seconds is above 0"),
        ("cpus = \"0-1\"", "cpus = \"0-8\"", "line 14: cpus: `0-8` is no range of CPUs 0 to 7"),
        (
            "{ cache = \"bio\", count",
            "{ cache = \"bi\", count",
            "line 18: allocates: there is no cache `bi`",
        ),
        ("[10, 20]", "[20, 10]", "line 18: allocates: lifetime_us"),
        ("\"4-5\"", "\"x\"", "line 17: allocates: freed_on: `x` is no list"),
        ("20000", "2e9", "line 15: per_second"),
        ("20000", "9e8", "line 13: tasks: some"),
        ("\"1,3\"", "\"0-3\"", "machine: no node has memory"),
        ("\"1,3\"", "\"1,4\"", "machine: nodes 1,4 have no memory, but there are 4 nodes"),
        ("\"1,3\"", "\"all\"", "line 7: memoryless is a list"),
        ("264", "0", "line 9: cache bio: an object of 0 bytes"),
        ("\"7.1\"", "\"4.2\"", "machine: kernel 4.2 is older"),
    ] {
        let error = made(&LOAD.replacen(from, to, 1)).unwrap_err();
        assert!(error.starts_with(wanted), "{error}");
    }
}
