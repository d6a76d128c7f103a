//! The view of one cache, as people see it.

use super::scene::{HUMAN, cache, is_as, kernel, known, process, text};
use slabyard_observe::snapshot::{Slab, SlabPlace};
use slabyard_observe::traces::{Frame, Site, Traces};
use slabyard_observe::view::Style;
use slabyard_observe::view::show::fullness::SlabLines;
use slabyard_observe::view::show::{traces, write, write_json};

#[test]
fn a_cache_of_a_process_with_each_slab() {
    let snapshot = process();
    let shown =
        text(|out| write(out, &snapshot, cache(&snapshot, "malloc-64"), SlabLines::Each, HUMAN));
    is_as("show-process.txt", &shown);
    assert!(shown.contains("with just 1 in use: 1 slab\n"), "{shown}");
}

#[test]
fn slabs_one_by_one_are_for_those_who_ask() {
    let snapshot = process();
    let cache = cache(&snapshot, "malloc-64");
    let each = text(|out| write(out, &snapshot, cache, SlabLines::Each, Style::PLAIN));
    let counted = text(|out| write(out, &snapshot, cache, SlabLines::Counted, Style::PLAIN));
    let lines = each.lines().filter(|line| line.starts_with(" page=")).count();
    assert!(lines > 0 && each.starts_with(counted.split("--slabs").next().unwrap()), "{each}");
    assert!(!counted.contains(" page="), "{counted}");
    assert!(
        counted.contains(&format!("--slabs shows them one by one: {lines} lines\n")),
        "{counted}"
    );
}

#[test]
fn a_cache_of_a_kernel_with_its_nodes_and_cpus() {
    let snapshot = kernel();
    let shown =
        text(|out| write(out, &snapshot, cache(&snapshot, "dentry"), SlabLines::Each, HUMAN));
    is_as("show-kernel.txt", &shown);
}

#[test]
fn a_merged_cache_is_found_by_any_name() {
    let snapshot = kernel();
    for name in [":0000064", "fsnotify_mark", "kmalloc-rcl-64"] {
        let shown = text(|out| {
            write(out, &snapshot, cache(&snapshot, name), SlabLines::Each, Style::PLAIN)
        });
        is_as("show-merged.txt", &shown);
    }
}

#[test]
fn slabs_on_cpus_are_shown_list_by_list() {
    let mut snapshot = process();
    let slab = |page, cpu| {
        let place = SlabPlace::Cpu(cpu);
        Slab { page, order: 1, objects: 51, place, ..Slab::default() }
    };
    let mut counted = slab(0x5000, 0);
    (counted.partial_pages, counted.partial_objects) = (Some(1), Some(9));
    snapshot.caches[0].slabs = Some(vec![slab(0x3000, 1), counted, slab(0x1000, 1)]);
    let shown =
        text(|out| write(out, &snapshot, &snapshot.caches[0], SlabLines::Each, Style::PLAIN));
    let want = "
malloc-64 on 0:
 page=5 base=5000 order=1 partial_pages=1 partial_objects=9 objects=51 inuse=0

malloc-64 on 1:
 page=3 base=3000 order=1 objects=51 inuse=0
 page=1 base=1000 order=1 objects=51 inuse=0
";
    assert!(shown.ends_with(want), "{shown}");
}

#[test]
fn json_has_all_of_it() {
    let snapshot = process();
    let shown = text(|out| write_json(out, &snapshot, cache(&snapshot, "malloc-64")));
    is_as("show-process.json", &known(&shown));
    let value: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(value["cache"]["cpus"]["0"]["parked_cpu"], 60);
    assert_eq!(value["cache"]["fullness"]["just_one"], 1);
    assert_eq!(value["cache"]["partial_slabs"][0]["place"]["node"], 0);
    let snapshot = kernel();
    let shown = text(|out| write_json(out, &snapshot, cache(&snapshot, "dentry")));
    let value: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(value["cache"]["nodes"]["0"]["cpu_slabs"], 13);
    assert!(value["cache"]["hidden"].is_string() && value["cache"]["fullness"].is_null());
}

/// A site that is known and one about which nothing is.
fn sites() -> Traces {
    let frame = |function: Option<&str>, file: Option<&str>| Frame {
        address: 0x401_1a9,
        function: function.map(str::to_owned),
        offset: 0x1a9,
        file: file.map(str::to_owned),
    };
    let known = Site {
        objects: 2,
        bytes: 120,
        slabs: 2,
        slabs_alone: 1,
        age: Some((1_000_000_000, 3_000_000_000, 2_000_000_000)),
        age_jiffies: None,
        threads: Some((71, 71)),
        cpus: Some((0, 1)),
        stack: vec![1, 2, 3],
        frames: vec![
            frame(Some("ma\u{1b}ke"), Some("/usr/bin/program")),
            frame(None, Some("/usr/bin/program")),
            frame(None, None),
        ],
    };
    Traces {
        cache: "session".into(),
        objects: 3,
        slabs_by_live: vec![(0, 4), (1, 1), (2, 1)],
        alloc: vec![known, Site { objects: 1, slabs: 1, ..Site::default() }],
        free: vec![Site { objects: 3, ..Site::default() }],
    }
}

#[test]
fn sites_are_told_as_the_kernel_tells_them() {
    let shown = text(|out| traces::write(out, &sites(), Style::PLAIN));
    let want = "session\n\
        3 live objects keep 2 of 6 slabs\n\n\
        live  slabs  objects\n\
        \u{20}  0      4        0\n\
        \u{20}  1      1        1\n\
        \u{20}  2      1        2\n\n\
        2 allocated, 120, in 2 slabs, 1 of them kept by these alone, age 1.000/1.500/2.000 s, \
        thread 71, cpu 0-1\n\
        \u{20}   ma\u{fffd}ke+0x1a9 [/usr/bin/program]\n\
        \u{20}   0x1a9 [/usr/bin/program]\n\
        \u{20}   0x4011a9\n\n\
        1 allocated <not-available>\n\n\
        3 freed before <not-available>\n";
    let squeezed = |text: &str| -> Vec<Vec<String>> {
        text.lines().map(|l| l.split_whitespace().map(str::to_owned).collect()).collect()
    };
    assert_eq!(squeezed(&shown), squeezed(want), "{shown}");
}

#[test]
fn sites_have_json() {
    let json = text(|out| traces::write_json(out, &process(), &sites()));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let told = &json["traces"];
    assert_eq!((&told["cache"], &told["objects"]), (&"session".into(), &3.into()));
    assert_eq!(told["alloc"][0]["age_ns"][1], 3_000_000_000_u64);
    assert_eq!(told["alloc"][0]["frames"][0]["file"], "/usr/bin/program");
    assert_eq!(told["alloc"][1]["age_ns"], serde_json::Value::Null);
    assert!(json["source"]["kind"].is_string());
}
