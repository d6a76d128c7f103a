//! `slabyard trace`: making traces from other traces.

use crate::skipped::skip;
use crate::stage::{SLABYARD, text};
use crate::traces::{Files, OBJECTS, csv_of, ends, load, parsed, snapshot, tiny};
use serde_json::Value;
use slabyard_lab::event::{Event, EventKind};
use slabyard_lab::trace::{self, Attached, END, MALLOC, RECORDING, SHRINK, START, Trace};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn of(args: &[&str]) -> Output {
    Command::new(SLABYARD).arg("trace").args(args).stdin(Stdio::null()).output().unwrap()
}

/// A trace that holds what it was recorded with.
fn held(slabs: u64) -> Trace {
    let mut trace = load(slabs, OBJECTS);
    let bytes = snapshot().to_string().into_bytes();
    let one = |name: &str, time| Attached { name: name.into(), time, bytes: bytes.clone() };
    trace.attached = vec![one(START, 0), one(END, 9_000_000)];
    let bytes = br#"{"command": ["secret-program"], "lost": 0}"#.to_vec();
    trace.attached.push(Attached { name: RECORDING.into(), time: 9_000_000, bytes });
    trace
}

/// A file of a trace that holds its snapshot, and none beside it.
fn files(trace: &Trace) -> Files {
    let files = Files::new(trace);
    std::fs::remove_file(files.path("load.before.json")).unwrap();
    files
}

fn replayed(file: &str) -> Value {
    parsed(&crate::traces::slabyard(&[file, "--json"]), 0)
}

#[test]
fn a_trace_that_holds_its_snapshot_needs_none() {
    let files = files(&held(3));
    let with = replayed(&files.trace());
    files.put("load.before.json", snapshot().to_string().as_bytes());
    let beside = parsed(&files.replay(&["--start", &files.path("load.before.json"), "--json"]), 0);
    assert_eq!(with["totals"], beside["totals"]);
    assert_eq!(with["source"]["start"], files.trace());
}

#[test]
fn info_tells_what_is_in_it() {
    let files = files(&held(3));
    let info = parsed(&of(&["info", &files.trace(), "--json"]), 0);
    assert_eq!(
        (&info["events"], &info["lost"], &info["cpus"]),
        (&129.into(), &0.into(), &1.into())
    );
    assert_eq!(info["kinds"]["mm_page_alloc"], 3);
    assert_eq!(info["caches"][0]["events"], 6 * OBJECTS);
    assert_eq!(info["holds"].to_string(), r#"["start","end","recording"]"#);
    assert_eq!(info["recording"]["command"][0], "secret-program");
    let plain = of(&["info", &files.trace()]);
    ends(&plain, 0, "");
    assert!(text(&plain.stdout).contains("kernel        6.12.1"), "{}", text(&plain.stdout));
    // A CSV is a trace as well, and a damaged one is told.
    let csv = files.put("load.csv", csv_of(&load(3, OBJECTS)).as_bytes());
    assert_eq!(parsed(&of(&["info", &csv, "--json"]), 0)["events"], 129);
    let whole = std::fs::read(files.trace()).unwrap();
    let cut = files.put("cut.slabtrace", &whole[..whole.len() - 5]);
    assert_eq!(parsed(&of(&["info", &cut, "--json"]), 1)["events"], 129);
}

#[test]
fn a_cut_has_the_events_of_its_time_and_caches() {
    let files = files(&held(3));
    let out = files.path("out.slabtrace");
    // Events are 10 µs apart: 10 to 19 of 129.
    let args = ["cut", &files.trace(), "-o", &out, "--from", "0.0001", "--to", "0.0002"];
    ends(&of(&args), 0, "the caches' sizes only");
    let cut = trace::open(Path::new(&out)).unwrap();
    assert_eq!((cut.events.len(), cut.events[0].time), (10, 0));
    let names: Vec<&str> = cut.attached.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, [START, RECORDING]);
    let start = String::from_utf8(cut.attached[0].bytes.clone()).unwrap();
    assert!(start.contains("objs_per_slab") && !start.contains("objects_partial"), "{start}");

    for (caches, events) in [("filp", 129), ("cred", 129), ("f*", 129), ("dentry", 3)] {
        ends(&of(&["cut", &files.trace(), "-o", &out, "--caches", caches]), 0, "");
        let cut = trace::open(Path::new(&out)).unwrap();
        assert_eq!(cut.events.len(), events, "{caches}");
    }
    ends(&of(&["cut", &files.trace(), "-o", &out, "--cpus", "1-3"]), 0, "other CPUs");
    assert_eq!(trace::open(Path::new(&out)).unwrap().events.len(), 0);
    ends(&of(&["cut", &files.trace(), "-o", &out, "--from", "2", "--to", "1"]), 2, "later");
}

#[test]
fn machines_together_have_the_slabs_of_both() {
    let (one, other) = (files(&held(3)), files(&held(5)));
    let out = one.path("both.slabtrace");
    ends(&of(&["merge", &one.trace(), &other.trace(), "-o", &out]), 0, "");
    let both = replayed(&out);
    assert_eq!(both["settings"]["cpus"].as_u64().unwrap_or(2), 2, "{}", both["settings"]);
    let slabs = |replayed: &Value| -> u64 {
        replayed["caches"].as_array().unwrap().iter().map(|c| c["peak"].as_u64().unwrap_or(0)).sum()
    };
    let (a, b) = (replayed(&one.trace()), replayed(&other.trace()));
    assert_eq!(slabs(&both), slabs(&a) + slabs(&b));
    assert!(slabs(&both) > 0, "{both}");

    let mut shrunk = held(3);
    shrunk.attached.push(Attached { name: SHRINK.into(), time: 1, bytes: b"kmalloc-64".into() });
    let shrunk = files(&shrunk);
    ends(&of(&["merge", &other.trace(), &shrunk.trace(), "-o", &out]), 0, "1 shrinks of caches");
    assert!(trace::open(Path::new(&out)).unwrap().attachment(SHRINK).is_some());

    let mut pages = held(3);
    pages.header.page_size = Some(65536);
    let pages = files(&pages);
    let wrong = of(&["merge", &one.trace(), &pages.trace(), "-o", &out]);
    ends(&wrong, 3, "pages of 65536 bytes");
    assert!(text(&wrong.stderr).contains(&pages.trace()), "{}", text(&wrong.stderr));
}

#[test]
fn a_copy_that_names_nothing_replays_alike() {
    let files = files(&held(7));
    let out = files.path("public.slabtrace");
    ends(&of(&["anonymise", &files.trace(), "-o", &out]), 0, "");
    let (was, is) = (replayed(&files.trace()), replayed(&out));
    assert_eq!((&was["totals"], &was["counters"]), (&is["totals"], &is["counters"]));
    let copy = trace::open(Path::new(&out)).unwrap();
    let mut all: String = copy.names.iter().map(|(_, name)| name.to_owned()).collect();
    all += &copy.header.source;
    for one in &copy.attached {
        all += &String::from_utf8_lossy(&one.bytes);
    }
    for word in ["filp", "cred", "secret", "a test"] {
        assert!(!all.contains(word), "{word} is in the copy");
    }
    let addresses = copy.events.iter().map(|event| event.address);
    assert!(addresses.max().unwrap() < 1 << 40, "no address of the machine is left");
}

/// A recording in which the kernel made no slab, or next to none, does not tell where its memory
/// was mapped.
#[test]
fn a_trace_without_pages_is_copied_and_merged_as_it_replays() {
    for slabs_made in [0, 1] {
        let mut trace = held(7);
        trace.header.page_offset = None;
        let mut nth = 0;
        trace.events.retain(|event| match event.kind {
            EventKind::PageAlloc | EventKind::PageFree => {
                nth += 1;
                nth <= slabs_made
            }
            _ => true,
        });
        let files = files(&trace);
        let (copy, both) = (files.path("public.slabtrace"), files.path("both.slabtrace"));
        ends(&of(&["anonymise", &files.trace(), "-o", &copy]), 0, "");
        ends(&of(&["merge", &files.trace(), &copy, "-o", &both]), 0, "");
        let (was, is) = (replayed(&files.trace()), replayed(&copy));
        assert_eq!((&was["totals"], &was["counters"]), (&is["totals"], &is["counters"]));
        assert_eq!(parsed(&of(&["info", &both, "--json"]), 0)["events"], 2 * trace.events.len());
    }
    // Nothing tells how large a page is.
    let mut trace = held(7);
    trace.events.retain(|event| !matches!(event.kind, EventKind::PageAlloc | EventKind::PageFree));
    (trace.header.page_offset, trace.header.page_size) = (None, None);
    let files = files(&trace);
    let copy = files.path("public.slabtrace");
    ends(&of(&["anonymise", &files.trace(), "-o", &copy]), 3, "does not tell its page size");
}

/// Text of `perf script` and a file of heaptrack are traces like any other.
#[test]
fn files_of_other_recorders_are_read() {
    let files = tiny();
    let line = "sh  8126 [001]  100.000001500: kmem:kmalloc: call_site=alloc_pipe_info+0x9f \
                ptr=0xffff888104d28d80 bytes_req=168 bytes_alloc=192 gfp_flags=GFP_KERNEL node=-1 \
                accounted=false\n";
    let script = files.put("script.txt", line.as_bytes());
    let info = parsed(&of(&["info", &script, "--json"]), 0);
    assert_eq!(
        (&info["events"], &info["kmalloc_sites"][0]["name"]),
        (&1.into(), &"alloc_pipe_info".into())
    );
    let line = line.replace("kmalloc", "kmem_cache_alloc").replace("ptr=", "name=dentry ptr=");
    let script = files.put("caches.txt", line.as_bytes());
    let info = parsed(&of(&["info", &script, "--json"]), 0);
    let holder = &info["live_at_end"][0];
    assert_eq!([&holder["site"], &holder["cache"]], ["alloc_pipe_info", "dentry"]);
    // Both names come through the format and through an edit of it.
    let file = files.path("sites.slabtrace");
    ends(&of(&["cut", &script, "-o", &file]), 0, "");
    assert_eq!(&parsed(&of(&["info", &file, "--json"]), 0)["live_at_end"][0], holder);
    let heap = "v 10400 3\ns 4 grow\ni 7f00 0 1\nt 1 0\na 64 1\n+ 0\n+ 0\n- 0\n";
    let heap = files.put("heap", heap.as_bytes());
    let info = parsed(&of(&["info", &heap, "--json"]), 0);
    assert_eq!((&info["kinds"]["kmalloc"], &info["kinds"]["kfree"]), (&2.into(), &1.into()));
    let replayed = replayed(&heap);
    let caches = replayed["caches"].as_array().unwrap();
    let used = caches.iter().filter(|cache| cache["allocated"] != 0);
    let used: Vec<_> = used.map(|cache| cache["name"].as_str().unwrap()).collect();
    assert_eq!(used, ["malloc-112"]);
    ends(&of(&["info", &files.put("other", b"not one of them\n")]), 3, "not a trace");
}

/// A file of perf itself, where perf may record.
#[test]
fn a_file_of_perf_is_read() {
    let files = tiny();
    let data = files.path("perf.data");
    let mut perf = Command::new("perf");
    perf.args([
        "record",
        "-q",
        "-a",
        "-o",
        &data,
        "-e",
        "kmem:kmalloc",
        "-e",
        "kmem:kfree",
        "true",
    ]);
    if !perf.stderr(Stdio::null()).stdout(Stdio::null()).status().is_ok_and(|s| s.success()) {
        skip("perf cannot record here");
        return;
    }
    let info = parsed(&of(&["info", &data, "--json"]), 0);
    assert!(info["kinds"]["kmalloc"].as_u64().unwrap() > 3, "{info}");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!((&info["release"], &info["page_bytes"]), (&release.trim().into(), &4096.into()));
}

#[test]
fn what_cannot_be_read_or_written_is_told() {
    let files = tiny();
    ends(&of(&["info", "/no/such.slabtrace"]), 3, "No such file");
    ends(
        &of(&["cut", &files.trace(), "-o", "/no/such/out.slabtrace"]),
        3,
        "/no/such/out.slabtrace",
    );
    let newer = files.path("newer.slabtrace");
    let mut bytes = std::fs::read(files.trace()).unwrap();
    bytes[8] = 99;
    std::fs::write(&newer, bytes).unwrap();
    ends(&of(&["info", &newer]), 3, "use a newer one");
}

/// A load in which process 42 leaks so many objects of so many bytes.
fn leaking(number: u64, bytes: u32) -> Trace {
    let mut trace = load(3, OBJECTS);
    let (site, cache) = (trace.names.intern("newary"), trace.names.intern("sem"));
    let end = trace.events.last().unwrap().time;
    let objects = (0..number).map(|nth| Event {
        time: nth * end / number,
        address: 0x8890_0000_0000 + nth * u64::from(bytes),
        name: cache,
        site,
        pid: 42,
        allocated: bytes,
        ..Event::BLANK
    });
    trace.events.extend(objects);
    trace.events.sort_by_key(|event| event.time);
    trace
}

#[test]
fn the_doctor_names_who_leaks_in_a_recording() {
    let doctor = |file: &str, args: &[&str]| {
        Command::new(SLABYARD).args(["doctor", file]).args(args).output().unwrap()
    };
    let sum = |told: &Value| -> i64 {
        let parts = told["verdict"]["parts"].as_array().unwrap();
        parts.iter().map(|part| part["bytes"].as_i64().unwrap()).sum()
    };
    for of_process in [false, true] {
        let mut trace = leaking(1000, 4096);
        if of_process {
            trace.attached.push(Attached { name: MALLOC.into(), time: 0, bytes: Vec::new() });
        }
        let recorded = files(&trace);
        let told = parsed(&doctor(&recorded.trace(), &["--json"]), 1);
        let first = &told["findings"][0];
        assert_eq!(first["id"], if of_process { "leak.site" } else { "kernel.leak-site" });
        assert_eq!((&first["caches"][0], &first["bytes"]), (&"sem".into(), &4_096_000.into()));
        let owner = (&first["owners"][0]["who"], &first["owners"][0]["site"]);
        assert_eq!(owner, (&"process 42".into(), &"newary".into()));
        assert_eq!(told["verdict"]["of"], "recorded");
        assert_eq!(told["verdict"]["bytes"].as_i64(), Some(sum(&told)), "{}", told["verdict"]);
        assert!(told["missing"].to_string().contains("slabs and what is free in them"), "{told}");
        let page = recorded.path("why.html");
        ends(&doctor(&recorded.trace(), &["--html", &page]), 1, "");
        assert!(std::fs::read_to_string(page).unwrap().contains("process 42"));
        ends(&doctor(&recorded.trace(), &["--watch", "1"]), 2, "does not change");
    }
    let clean = files(&held(3));
    let none = doctor(&clean.trace(), &[]);
    ends(&none, 0, "");
    assert!(text(&none.stdout).contains("nothing found"), "{}", text(&none.stdout));
    let mut bytes = std::fs::read(clean.trace()).unwrap();
    bytes.truncate(20);
    std::fs::write(clean.path("cut.slabtrace"), bytes).unwrap();
    ends(&doctor(&clean.path("cut.slabtrace"), &[]), 3, "cut.slabtrace");
}

#[test]
fn leaks_names_the_site_that_frees_nothing() {
    let leaking = files(&leaking(100, 192));
    let found = parsed(&of(&["leaks", &leaking.trace(), "--json"]), 1);
    let first = &found["sites"][0];
    assert_eq!((&first["verdict"], &first["site"]), (&"leak".into(), &"newary".into()));
    assert_eq!((&first["cache"], &first["objects"]), (&"sem".into(), &100.into()));
    assert_eq!(first["processes"][0]["pid"], 42);
    let table = of(&["leaks", &leaking.trace()]);
    ends(&table, 1, "");
    let row = text(&table.stdout).lines().find(|line| line.starts_with("leak")).unwrap();
    assert!(row.contains("18.8 KiB") && row.ends_with("newary"), "{row}");
    let csv = of(&["leaks", &leaking.trace(), "--csv"]);
    ends(&csv, 1, "");
    assert!(text(&csv.stdout).contains("leak,newary,sem,42,100,19200,"), "{}", text(&csv.stdout));
    // All that is allocated there is freed.
    let clean = files(&held(3));
    let none = of(&["leaks", &clean.trace()]);
    ends(&none, 0, "");
    assert!(text(&none.stdout).contains("No leak found"), "{}", text(&none.stdout));
    assert_eq!(parsed(&of(&["leaks", &clean.trace(), "--json"]), 0)["sites"], Value::Array(vec![]));
    ends(&of(&["leaks", &clean.path("none.slabtrace")]), 3, "cannot read the trace");
}
