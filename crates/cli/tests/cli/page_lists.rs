//! Page lists below a real program that forks, and in a replay.

use crate::stage::{self, SLABYARD, text};
use serde_json::Value as Json;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

const KINDS: [&str; 5] = ["slabyard", "hot-cold", "merged", "today", "none"];

fn json(args: &[&str]) -> Json {
    let output = Command::new(SLABYARD).args(args).arg("--json").stdin(Stdio::null()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn what_lists_do_is_shown() {
    let Some(program) = stage::holds() else { return };
    for kind in KINDS {
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", stage::real_engines()).env("SLABYARD_OBSERVABLE", "1");
        command.env("SLABYARD_ENGINE", "tiny").env("SLABYARD_COUNT", "1");
        command.env("SLABYARD_PAGE_LISTS", kind).env("SLABYARD_DECAY_MS", "3600000");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut turns = || {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            assert!(["ready\n", "done\n"].contains(&line.as_str()), "{line}");
        };
        turns();
        for _ in 0..3 {
            writeln!(child.stdin.as_mut().unwrap(), "turn").unwrap();
            turns();
        }
        let pid = child.id().to_string();
        let counts = &json(&["show", &pid, "--counts"])["cache"];
        let of = |name: &str| counts[name].as_u64().unwrap_or(0);
        let slabs = of("alloc_slab");
        assert!(slabs > 100, "{kind}: {counts}");
        let (hits, locks) = (of("page_hit"), of("page_lock"));
        match kind {
            "none" => assert_eq!((hits, locks), (0, slabs + of("free_slab"))),
            "slabyard" => assert_eq!(hits + of("page_refill"), slabs),
            _ => {
                assert!(hits > 0 && locks < slabs + of("free_slab"), "{kind}: {counts}");
                assert!(of("page_refilled") >= of("page_refill"), "{kind}: {counts}");
            }
        }
        // The parts of its memory add up, lists among them.
        let list = json(&["list", &pid]);
        assert!(!list.to_string().contains("identity"), "{kind}: {list}");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_program_that_forks_stays_whole() {
    let script = "for n in 1 2 3 4 5 6; do (for m in a b c; do x=$x$m; done; echo $n) | cat; done";
    for kind in KINDS {
        for engine in ["tiny", "slab", "slub"] {
            let mut command = Command::new("bash");
            command.args(["-c", script]).env("LD_PRELOAD", stage::real_engines());
            command.env("SLABYARD_ENGINE", engine).env("SLABYARD_PAGE_LISTS", kind);
            command.env("SLABYARD_VERIFY_AT_EXIT", "1").stdin(Stdio::null());
            let output = command.output().unwrap();
            let said = (text(&output.stdout), text(&output.stderr));
            assert_eq!(said, ("1\n2\n3\n4\n5\n6\n", ""), "{kind} {engine}");
        }
    }
}

#[test]
fn a_replay_passes_its_pages_through_lists() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/traces/lists_6.18.slabtrace");
    let counters = |set: &str| {
        let root = json(&["replay", trace, "--set", set]);
        let of = root["counters"].clone();
        // Each is of some cache.
        let caches = root["caches"].as_array().unwrap().iter();
        let sum =
            |name: &str| caches.clone().map(|it| it["counters"][name].as_u64().unwrap()).sum();
        for name in ["page_hit", "page_refilled", "page_lock"] {
            assert_eq!(of[name].as_u64(), Some(sum(name)), "{set}: {name}");
        }
        move |name: &str| of[name].as_u64().unwrap_or_else(|| panic!("{name}"))
    };
    let plain = counters("min_order=0");
    assert_eq!((plain("page_hit"), plain("page_lock")), (0, 0), "no lists were asked for");
    let calls = plain("alloc_slab") + plain("free_slab");
    let none = counters("page_lists=none");
    assert_eq!((none("page_hit"), none("page_lock")), (0, calls));
    for kind in ["slabyard", "hot-cold", "merged", "today"] {
        let of = counters(&format!("page_lists={kind}"));
        assert_eq!(of("alloc_slab") + of("free_slab"), calls, "{kind}");
        assert!(of("page_lock") < calls && of("page_hit") > 0, "{kind}");
        assert!(of("page_refilled") >= of("page_refill"), "{kind}");
    }
    // Of 6.18, whose lists are of four orders, each slab is a hit or makes a refill.
    let today = counters("page_lists=today");
    assert_eq!(today("page_hit") + today("page_refill"), today("alloc_slab"));
}
