//! `slabyard replay`: traces, their snapshots, and real kernels.

use crate::stage::{SLABYARD, text};
use crate::traces::{Files, OBJECTS, ends, load, parsed, real, snapshot, tiny};
use nix::pty::openpty;
use serde_json::{Value, json};
use slabyard_kernels::settings::REPLAYED;
use std::fs::File;
use std::io::Read;
use std::process::{Command, Output};

#[test]
fn a_tiny_trace_is_replayed_and_its_snapshot_found_beside_it() {
    let output = tiny().replay(&[]);
    ends(&output, 0, "load.before.json, found beside the trace");
    let table = text(&output.stdout);
    // Nothing before; two slabs for the CPU's list and one for the CPU.
    let row = table.lines().find(|line| line.starts_with(":0000192 (cred+1)")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[2..13], "0 21 0 3 3 3 0 0 21 42 0".split(' ').collect::<Vec<_>>(), "{table}");
    for part in [
        "kernel 6.12.1; rules of 6.12 (by the preset 6.8), 2 CPUs, 1 node, pages of 4 KiB",
        "cpu_partial_free",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(!table.contains("barn_put") && !table.contains('\x1b'), "{table}");
    assert!(table.contains("CPU partial lists hold 2 slabs, 2 of them empty"), "{table}");
    // How long the trace is, and not how fast the replay was.
    assert!(table.starts_with("129 events, recorded over 0.001 s on kernel 6.12.1"), "{table}");
    let all = tiny().replay(&["--counters"]);
    assert!(text(&all.stdout).contains("barn_put_fail"));
    assert!(text(&all.stdout).contains("Full sheaves that it did not take."));
}

#[test]
fn a_cache_that_a_release_does_not_have_is_left_out_of_its_replay() {
    let files = tiny();
    let mut with_locks = snapshot();
    with_locks["aliases"] = json!({ "filp": ":0000192", "vma_lock": ":0000192" });
    files.put("load.before.json", with_locks.to_string().as_bytes());
    for (release, slabs, why) in [
        ("6.8", 3, Value::Null),
        ("6.18", 0, json!("the modelled release has no such cache")),
        ("7.3", 0, json!("the modelled release has no such cache")),
    ] {
        let found = parsed(&files.replay(&["--release", release, "--json"]), 0);
        let cache = &found["caches"][0];
        assert_eq!((&cache["allocated"], &cache["left_out"]), (&json!(slabs), &why), "{release}");
        let table = files.replay(&["--release", release]);
        let note = format!("Linux {release} has no vma_lock (:0000192): left out");
        assert_eq!(text(&table.stdout).contains(&note), slabs == 0, "{release}");
    }
}

#[test]
fn slabs_that_are_not_laid_out_by_the_rules_are_told_with_the_reason() {
    let files = tiny();
    let mut with_slabs = snapshot();
    let cache = &mut with_slabs["slab"][":0000192"];
    (cache["slabs"], cache["objects"]) = (json!(40), json!(40 * OBJECTS));
    let mut uncounted = with_slabs.clone();
    uncounted["slab"][":0000192"].as_object_mut().unwrap().remove("cpu_slabs");
    let does_not_tell = "does not tell `slabs` and `cpu_slabs`";
    for (snapshot, args, why) in [
        (&with_slabs, &[][..], None),
        (&with_slabs, &["--set", "min_order=1"], None),
        (&with_slabs, &["--engine", "slab"], Some("slabs of SLUB alone")),
        (&uncounted, &[], None),
        (&uncounted, &["--set", "min_order=1"], Some(does_not_tell)),
    ] {
        files.put("load.before.json", snapshot.to_string().as_bytes());
        let output = files.replay(args);
        let table = text(&output.stdout);
        assert!(table.contains(" more slabs of the snapshot ("), "{args:?}: {table}");
        assert_eq!(table.contains("not laid out"), why.is_some(), "{args:?}: {table}");
        let found = parsed(&files.replay(&[args, &["--json"]].concat()), 0);
        let told = found["totals"]["untouched_not_laid_out"].as_str();
        assert_eq!(told.is_some(), why.is_some(), "{args:?}: {told:?}");
        assert!(why.is_none_or(|why| told.unwrap().contains(why) && table.contains(why)));
    }
}

#[test]
fn slob_and_tiny_replay_the_same_trace() {
    let files = tiny();
    let slob = parsed(&files.replay(&["--engine", "slob", "--json", "--samples", "3"]), 0);
    // 63 objects of 192 bytes, 21 of them in a page.
    assert_eq!((&slob["allocated"], &slob["freed"]), (&json!(63), &json!(63)));
    assert_eq!((&slob["peak"]["pages"], &slob["peak"]["live"]), (&json!(3), &json!(63 * 192)));
    assert_eq!((&slob["end"]["pages"], &slob["free_partial"]), (&json!(0), &json!(0)));
    assert!(slob["series"].as_array().unwrap().len() > 1);
    let output = files.replay(&["--engine", "slob"]);
    ends(&output, 0, "");
    assert!(text(&output.stdout).contains("rules of SLOB, 2 CPUs, pages of 4 KiB, start empty"));
    ends(&files.replay(&["--engine", "slob", "--check"]), 2, "--check is not for --engine slob");

    let output = files.replay(&["--engine", "tiny", "--release", "6.8", "--json"]);
    let tiny = parsed(&output, 0);
    assert_eq!(
        (&tiny["settings"]["tiny"], &tiny["settings"]["engine"]),
        (&json!(true), &json!("tiny"))
    );
    // Nothing is parked, and what is empty ends.
    assert_eq!(tiny["after"]["totals"]["bytes"], 0);
    ends(&files.replay(&["--engine", "tiny", "--release", "5.9"]), 2, "tiny came with 6.2");
}

#[test]
fn json_adds_up_and_has_the_kernels_names() {
    let files = tiny();
    let root = parsed(&files.replay(&["--json", "--samples", "10"]), 0);
    for key in ["source", "settings", "before", "after", "caches", "totals", "counters", "series"] {
        assert!(!root[key].is_null(), "{key}");
    }
    let (before, after) = (&root["before"]["caches"][0], &root["after"]["caches"][0]);
    assert_eq!((&before["slabs"], &before["live"]), (&json!(0), &json!(0)));
    assert_eq!(before["parked"], 0);
    let number = |of: &Value, key: &str| of[key].as_u64().unwrap();
    let sum = |of: &Value, keys: &[&str]| keys.iter().map(|key| number(of, key)).sum::<u64>();
    assert_eq!(number(after, "total_objects"), sum(after, &["live", "parked", "free_partial"]));
    let totals = &root["after"]["totals"];
    let parts = ["live", "parked_cpu", "parked_node", "free_partial", "padding"];
    assert_eq!((number(totals, "bytes"), sum(totals, &parts)), (3 * 4096, 3 * 4096));
    assert_eq!(root["caches"][0]["aliases"], json!(["cred", "filp"]));
    assert_eq!((&root["counters"]["alloc_slab"], &root["totals"]["peak"]), (&json!(3), &json!(3)));
    assert_eq!(root["settings"]["release"], "6.8");
    let series = root["series"].as_array().unwrap();
    assert!((9..=10).contains(&series.len()), "{series:?}");
    assert!(series.is_sorted_by_key(|point| point["time_ns"].as_u64()));
    let last = &series.last().unwrap()["caches"][":0000192"];
    assert_eq!(last["slabs"], 3);
    assert!(number(last, "parked_cpu") > 0, "{last}");
    assert_eq!(number(after, "cpu_slabs"), 1 + number(after, "slabs_cpu_partial"));
    assert!(number(after, "slabs_cpu_partial_empty") <= number(after, "slabs_cpu_partial"));
}

#[test]
fn another_machine_and_other_rules_give_other_numbers() {
    let files = tiny();
    let slabs = |args: &[&str]| {
        let root = parsed(&files.replay(&[&["--json"], args].concat()), 0);
        let totals = &root["after"]["totals"];
        (totals["slabs"].as_u64().unwrap(), totals["bytes"].as_u64().unwrap())
    };
    assert_eq!(slabs(&[]), (3, 3 * 4096));
    assert_eq!(slabs(&["--page-size", "64k"]), (1, 65536));
    assert_eq!(slabs(&["--set", "cpu_partial_lists=0", "--set", "min_partial=0"]), (1, 4096));
    assert_eq!(
        slabs(&["--release=7.1", "--cpus=64", "--nodes=2", "--set=min_order=1"]).1 % 8192,
        0
    );
}

/// A key that a command takes is not passed over: what is printed is other than without.
#[test]
fn every_key_changes_something() {
    const NEWER: &str = "--release=7.1";
    const HOLES: &str = "--possible-cpus=64";
    const SLAB: &str = "--engine=slab";
    let plain = "--release=6.12";
    for key in REPLAYED {
        // A size that the two ways to choose an order disagree about, in no trace of ours.
        let on_size = |set: &[&str]| {
            let mut command = Command::new(SLABYARD);
            let fixed = ["geometry", "--json", "--release=6.12", "--page-size=4k", "--cpus=4"];
            text(&command.args(fixed).arg("10936").args(set).output().unwrap().stdout).to_owned()
        };
        let on_trace = |set: &[&str]| {
            let root = parsed(&real("tr64k_hb_smp4.slabtrace", &[&["--json"], set].concat()), 0);
            ["after", "counters", "totals"].map(|part| root[part].to_string()).concat()
        };
        let (on, value): (&str, _) = match key.name {
            "min_order" => (plain, "2"),
            "max_order" | "cpu_partial" | "min_partial" | "cpu_partial_lists" => (plain, "0"),
            "min_objects" => (plain, "100"),
            "multiplier" => (plain, "16"),
            "tiny" => (plain, "1"),
            "accounting" => (plain, "exact"),
            "freezing" => (plain, "eager"),
            "front" => (plain, "sheaves"),
            "page_lists" => (plain, "none"),
            "sheaf_capacity" => (NEWER, "4"),
            "max_full_sheaves" | "max_empty_sheaves" => (NEWER, "1"),
            "nowait_refills" => (NEWER, "0"),
            "counted_cpus" => (HOLES, "possible"),
            "order_formula" => {
                assert_ne!(on_size(&[]), on_size(&["--set=order_formula=fewer_objects"]));
                continue;
            }
            "order_rule" => (plain, "auto"),
            "reclaim" => (SLAB, "2.5.39"),
            "arrays" => (SLAB, "0"),
            "pressure_ms" => {
                let clock = [SLAB, "--set=reclaim=2.4"];
                let set = [&clock[..], &["--set=pressure_ms=1"]].concat();
                assert_ne!(on_trace(&clock), on_trace(&set));
                continue;
            }
            "alien_cache" => {
                let nodes = [SLAB, "--cpus=4", "--nodes=2"];
                let set = [&nodes[..], &["--set=alien_cache=0"]].concat();
                assert_ne!(on_trace(&nodes), on_trace(&set));
                continue;
            }
            name => panic!("give {name} a value that changes something"),
        };
        let set = format!("--set={}={value}", key.name);
        assert!(on_trace(&[on]) != on_trace(&[on, &set]), "{on} {set} changes nothing");
    }
}

#[test]
fn a_check_of_what_slub_would_not_do_fails() {
    let good = tiny().replay(&["--check", "--all"]);
    ends(&good, 0, "");
    assert!(text(&good.stdout).ends_with("all goals are met\n"), "{}", text(&good.stdout));
    // One object a slab, and a new one each time.
    let output = Files::new(&load(40, 1)).replay(&["--check", "--json"]);
    let root = parsed(&output, 1);
    assert_eq!(root["met"], false);
    assert_eq!(
        (&root["totals"]["range"], &root["totals"]["model"]["allocated"]),
        (&json!(40), &json!(2))
    );
    let goals = root["goals"].as_array().unwrap();
    let missed = |words: &str| goals.iter().find(|g| g["name"] == words).unwrap()["met"] == false;
    assert!(missed("slabs allocated") && missed("one-step: next slab foretold"), "{goals:?}");
}

#[track_caller]
fn all_met(output: &Output) {
    ends(output, 0, "");
    let table = text(&output.stdout);
    assert!(table.contains("all goals are met"), "{table}");
    assert!(table.contains("spread of the total") && table.contains("left out are "), "{table}");
}

#[test]
fn forkexec_goes_as_in_the_kernel() {
    all_met(&real("forkexec.slabtrace", &["--check"]));
}

#[test]
fn hackbench_goes_as_in_the_kernel() {
    all_met(&real("hackbench.slabtrace", &["--check"]));
}

#[test]
fn a_guest_of_large_pages_goes_as_in_its_kernel() {
    all_met(&real("tr64k_hb_smp4.slabtrace", &["--check"]));
}

#[test]
fn from_the_snapshot_alone_the_total_is_near_enough() {
    // The lab's tests do it with each trace.
    let root =
        parsed(&real("tr64k_hb_smp4.slabtrace", &["--check", "--no-look-ahead", "--json"]), 0);
    let counted: Vec<&Value> =
        root["goals"].as_array().unwrap().iter().filter(|g| !g["met"].is_null()).collect();
    assert_eq!(counted.len(), 1, "{counted:?}");
}

#[test]
fn wrong_rules_are_seen() {
    // Which wrong rules are told from the right ones is the lab's affair.
    let rule = "min_partial=20";
    let root = parsed(&real("forkexec.slabtrace", &["--check", "--json", "--set", rule]), 1);
    assert_eq!(root["settings"]["set"], json!([rule]));
}

#[test]
fn a_terminal_sees_progress_and_colours_and_no_color_is_honoured() {
    let files = tiny();
    let seen = |no_color: &str| {
        let pty = openpty(None, None).unwrap();
        let mut command = Command::new(SLABYARD);
        command.args(["replay", &files.trace()]).env("TERM", "xterm").env("NO_COLOR", no_color);
        command.stdout(pty.slave.try_clone().unwrap()).stderr(pty.slave);
        let mut child = command.spawn().unwrap();
        drop(command);
        let (mut screen, mut seen) = (File::from(pty.master), String::new());
        let mut bytes = [0; 4096];
        // A terminal tells its end by an error.
        while let Ok(n @ 1..) = screen.read(&mut bytes) {
            seen += &String::from_utf8_lossy(&bytes[..n]);
        }
        assert!(child.wait().unwrap().success(), "{seen}");
        seen
    };
    let coloured = seen("");
    assert!(coloured.contains("\x1b[1mcache") && coloured.contains("replaying ..."), "{coloured}");
    assert!(!seen("1").contains("\x1b[1m"));
}

#[test]
fn a_load_of_a_slab_kernel_is_replayed_by_its_rules() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/tests/");
    let (trace, start) =
        (format!("{data}trace/slab_61.csv.zst"), format!("{data}data/slab_61.slabinfo.zst#boot"));
    let replay = |more: &[&str]| {
        let args = [&["replay", &trace, "--start", &start][..], more].concat();
        Command::new(SLABYARD).args(args).output().unwrap()
    };
    // The trace lacks what is allocated in bulk: 1 says that all figures are uncertain.
    let checked = replay(&["--engine=slab", "--check"]);
    assert_eq!(checked.status.code(), Some(1));
    let checked = text(&checked.stdout);
    assert!(
        checked.contains("rules of SLAB") && checked.contains("all goals are met"),
        "{checked}"
    );
    let by_slub = replay(&["--check"]);
    assert!(text(&by_slub.stdout).contains("missed"), "{}", text(&by_slub.stdout));
    let json = replay(&["--engine=slab", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["settings"]["engine"], "slab");
    let saved = format!("{}/slab.{}.json", std::env::temp_dir().display(), std::process::id());
    replay(&["--engine=slab", "--save", &saved]);
    let shown = Command::new(SLABYARD).args(["show", &saved, "dentry"]).output().unwrap();
    std::fs::remove_file(&saved).unwrap();
    let shown = text(&shown.stdout);
    assert!(shown.contains("\nlimit         120 ") && !shown.contains("min_partial"), "{shown}");
}
