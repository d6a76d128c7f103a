//! `slabyard replay`: traces, the snapshots that they begin with, and real kernels.

use crate::stage::{SLABYARD, text};
use nix::pty::openpty;
use serde_json::{Value, json};
use slabyard_lab::event::{ANY_NODE, Event, Kind};
use slabyard_lab::trace::{self, Header, Names, Trace, Writer};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const PAGE_OFFSET: u64 = 0x8880_0000_0000;
pub const OBJECTS: u64 = 21;

fn slabyard(args: &[&str]) -> Output {
    Command::new(SLABYARD).arg("replay").args(args).output().unwrap()
}

/// What a command must end with, and say.
#[track_caller]
pub fn ends(output: &Output, code: i32, words: &str) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}{}", text(&output.stdout));
    assert!(message.contains(words), "no {words:?} in {message}");
    if code > 1 {
        assert!(output.stdout.is_empty());
    }
}

#[track_caller]
pub fn parsed(output: &Output, code: i32) -> Value {
    ends(output, code, "");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A directory with a trace and, beside it, the snapshot that it began with.
pub struct Files {
    directory: TempDir,
}

impl Files {
    pub fn new(trace: &Trace) -> Files {
        let files = Files { directory: TempDir::new().unwrap() };
        trace.save(Path::new(&files.path("load.slabtrace"))).unwrap();
        files.put("load.before.json", snapshot().to_string().as_bytes());
        files
    }

    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().into()
    }

    fn put(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    pub fn trace(&self) -> String {
        self.path("load.slabtrace")
    }

    pub fn replay(&self, args: &[&str]) -> Output {
        slabyard(&[&[&*self.trace()], args].concat())
    }
}

/// A kernel that had nothing in its one cache.
fn snapshot() -> Value {
    json!({
        "kernel": "6.12.1", "page_size": 4096, "possible_cpus": "0-1", "present_cpus": "0-1",
        "online_cpus": "0-1", "nodes": "0", "aliases": { "filp": ":0000192", "cred": ":0000192" },
        "slab": { ":0000192": { "object_size": 192, "slab_size": 192, "objs_per_slab": OBJECTS,
            "order": 0, "cpu_partial": 120, "min_partial": 5, "slabs": 0, "objects": 0,
            "partial": 0, "objects_partial": 0, "cpu_slabs": 0, "slabs_cpu_partial": "0(0)",
            "destroy_by_rcu": 0 } },
    })
}

/// Allocations of `objects` on each of `slabs` pages by one CPU, then all frees.
pub fn load(slabs: u64, objects: u64) -> Trace {
    let mut names = Names::new();
    let filp = names.intern("filp");
    let mut events: Vec<Event> = Vec::new();
    let mut push = |kind, address, name| {
        events.push(Event {
            time: (events.len() as u64 + 1) * 10_000,
            address,
            name,
            pid: 1,
            requested: 192,
            allocated: 192,
            gfp: 0xcc0,
            cpu: 0,
            node: ANY_NODE,
            order: 0,
            kind,
            accounted: false,
        });
    };
    let address = |slab: u64, object: u64| PAGE_OFFSET + ((100 + slab) << 12) + object * 192;
    for slab in 0..slabs {
        push(Kind::PageAlloc, 100 + slab, 0);
        (0..objects).for_each(|object| push(Kind::CacheAlloc, address(slab, object), filp));
    }
    for slab in 0..slabs {
        (0..objects).for_each(|object| push(Kind::CacheFree, address(slab, object), filp));
    }
    let header = Header {
        release: "6.12.1".into(),
        page_size: Some(4096),
        cpus: Some(1),
        page_offset: Some(PAGE_OFFSET),
        source: "a test".into(),
    };
    Trace { events, names, header, ..Trace::default() }
}

pub fn tiny() -> Files {
    Files::new(&load(3, OBJECTS))
}

#[test]
fn a_tiny_trace_is_replayed_and_its_snapshot_found_beside_it() {
    let output = tiny().replay(&[]);
    ends(&output, 0, "load.before.json, found beside the trace");
    let table = text(&output.stdout);
    // Nothing before; two slabs for the CPU's list and one for the CPU.
    let row = table.lines().find(|line| line.starts_with(":0000192 (cred+1)")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[2..13], "0 21 0 3 3 3 0 0 21 42 0".split(' ').collect::<Vec<_>>(), "{table}");
    for part in ["kernel 6.12.1; rules of 6.8, 2 CPUs, 1 node, pages of 4 KiB", "cpu_partial_free"]
    {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(!table.contains("barn_put") && !table.contains('\x1b'), "{table}");
    assert!(table.contains("CPU partial lists hold 2 slabs, 2 of them empty"), "{table}");
    let all = tiny().replay(&["--counters"]);
    assert!(text(&all.stdout).contains("barn_put_fail"));
    assert!(text(&all.stdout).contains("Full sheaves that it did not take."));
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

#[test]
fn what_cannot_be_is_usage_with_the_reason() {
    let files = tiny();
    for (args, words) in [
        (&["--set", "max_order=12"][..], "max_order takes an order from 0 to 10"),
        (&["--cpus", "0"], "it must be from 1 to 8192"),
        (&["--nodes", "0"], "the number of nodes is 0"),
        (&["--page-size", "5k"], "5120 bytes; it must be 4096"),
        (&["--page-size", "big"], "expected bytes"),
        (&["--set", "max_ordr=1"], "did you mean `max_order`?"),
        (&["--release", "4.19"], "older than the oldest preset"),
        (&["--samples", "0"], "from 1 on"),
        (&["--samples", "5", "--every", "5"], "cannot be used with"),
        (&["--check", "--samples", "5"], "cannot be used with"),
        (&["--convert", "x", "--check"], "cannot be used with"),
        (&["--dump", "boot"], "no dump `boot`; leave it out"),
        (&["--check", "--cpus", "4"], "CPUs online are 4 here and 2 there"),
        (&["--check", "--page-size", "64k"], "truth of the traced machine alone"),
    ] {
        ends(&files.replay(args), 2, words);
    }
    ends(&slabyard(&[]), 2, "FILE");
}

#[test]
fn without_a_snapshot_it_is_said_how_to_take_one() {
    let files = tiny();
    fs::rename(files.path("load.before.json"), files.path("boot.json")).unwrap();
    let output = files.replay(&[]);
    ends(&output, 2, "--start SNAPSHOT");
    assert!(text(&output.stderr).contains("load.before.json.zst not found"));
    ends(&files.replay(&["--start", &files.path("boot.json")]), 0, "");
    ends(&files.replay(&["--start", &files.path("none.json")]), 3, "No such file");
}

#[test]
fn a_dump_is_picked_by_name() {
    let files = tiny();
    let mut other = snapshot();
    other["kernel"] = json!("7.1.0");
    let dumps = json!({ "dumps": { "boot": snapshot(), "hb": other } });
    let path = files.put("dumps.json", dumps.to_string().as_bytes());
    ends(&files.replay(&["--start", &path]), 2, "pick one with --dump: boot, hb");
    ends(&files.replay(&["--start", &format!("{path}#x")]), 2, "no dump `x`");
    for args in [
        ["--start", &format!("{path}#hb"), "--json"].to_vec(),
        vec!["--start", &path, "--dump", "hb", "--json"],
    ] {
        let root = parsed(&files.replay(&args), 0);
        assert_eq!(
            (&root["source"]["dump"], &root["settings"]["release"]),
            (&json!("hb"), &json!("7.1"))
        );
    }
}

#[test]
fn a_wrong_file_a_newer_one_and_a_cut_one_cannot_be_read() {
    let files = tiny();
    let whole = fs::read(files.trace()).unwrap();
    let mut newer = whole.clone();
    newer[8] = 99;
    let heading = "t_us,cpu,pid,ev,cache_or_site,ptr,req,alloc,gfp,node,acct\n";
    for (bytes, words) in [
        (&b"ELF, say"[..], "not a trace"),
        (b"", "the file is empty"),
        (&newer, "version 99; this slabyard reads versions up to"),
        (&whole[..20], "cut off"),
        (&whole[..whole.len() - 5], "--partial"),
        (&whole[..whole.len() / 2], "copy it again"),
        (format!("{heading}0.1,0,1,A,filp,zz,1,1,1,0,0\n").as_bytes(), "line 2"),
        (&zstd_of(heading.as_bytes())[..20], "line 1"),
    ] {
        files.put("load.slabtrace", bytes);
        ends(&files.replay(&[]), 3, words);
    }
    ends(
        &slabyard(&["/no/such.slabtrace", "--start", &files.path("load.before.json")]),
        3,
        "No such",
    );
    files.put("load.slabtrace", &whole);
    for (bytes, words) in [
        (&b"t_us,cpu"[..], "no JSON"),
        (b"{}", "no caches"),
        (
            br#"{"page_size": 65536, "kernel": "6.12", "online_cpus": "0", "slab": {}}"#,
            "different machines: bytes of a page, 4096 in the trace and 65536",
        ),
    ] {
        files.put("load.before.json", bytes);
        ends(&files.replay(&[]), 3, words);
    }
}

/// A frame of zstd with a stored block: no library is needed for it.
fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, bytes.len() as u8];
    let block = (bytes.len() as u32) << 3 | 1;
    frame.extend(&block.to_le_bytes()[..3]);
    frame.extend(bytes);
    frame
}

#[test]
fn what_is_left_of_a_cut_trace_is_replayed_when_asked_for() {
    let files = tiny();
    let whole = fs::read(files.trace()).unwrap();
    files.put("load.slabtrace", &whole[..whole.len() - 5]);
    let output = files.replay(&["--partial"]);
    ends(&output, 0, "all figures are uncertain");
    assert!(text(&output.stdout).starts_with("129 events"), "{}", text(&output.stdout));
}

#[test]
fn damage_and_lost_events_are_told() {
    let files = tiny();
    let load = load(3, OBJECTS);
    let file = File::create(files.trace()).unwrap();
    let mut writer = Writer::new(file, &load.header).unwrap().with_names(load.names.clone());
    writer.lost(7);
    load.events.iter().for_each(|event| writer.push(event).unwrap());
    writer.finish().unwrap();
    let output = files.replay(&["--check"]);
    ends(&output, 0, "7 events were lost");
    assert!(text(&output.stderr).contains("verdicts are uncertain"));
    let mut bytes = fs::read(files.trace()).unwrap();
    let chunk = bytes.windows(4).position(|w| w == b"CHNK").unwrap();
    bytes[chunk + 60] ^= 1;
    files.put("load.slabtrace", &bytes);
    let output = files.replay(&[]);
    let message = text(&output.stderr);
    assert!(message.contains("its checksum is wrong; 129 events are missing"), "{message}");
}

#[test]
fn a_csv_is_converted_and_stays_the_same_trace() {
    let files = tiny();
    let csv = "t_us,cpu,pid,ev,cache_or_site,ptr,req,alloc,gfp,node,acct\n\
               1.0,0,1,P,o0,64,,,cc0,0,\n\
               1.5,0,1,A,filp,888000064000,192,192,cc0,-1,0\n\
               2.5,1,1,F,filp,888000064000,,,,,\n";
    let csv = files.put("load.csv", csv.as_bytes());
    let to = files.path("new.slabtrace");
    let output = slabyard(&[&csv, "--convert", &to]);
    ends(&output, 0, "found beside the trace");
    assert!(text(&output.stdout).contains("new.slabtrace: 3 events in "));
    let (old, new) = (trace::open(Path::new(&csv)).unwrap(), trace::open(Path::new(&to)).unwrap());
    assert_eq!((&old.events, &old.names), (&new.events, &new.names));
    assert_eq!((&*new.header.release, new.header.page_size), ("6.12.1", Some(4096)));
    // In place, and where nothing can be written.
    ends(&slabyard(&[&to, "--convert", &to]), 0, "will not name the kernel");
    assert_eq!(trace::open(Path::new(&to)).unwrap().events, old.events);
    ends(&slabyard(&[&to, "--convert", "/no/such/directory/x"]), 3, "cannot write");
    assert_eq!(fs::read_dir(files.directory.path()).unwrap().count(), 4, "nothing is left behind");
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

pub fn real(name: &str, args: &[&str]) -> Output {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../lab/traces").join(name);
    slabyard(&[&[path.to_str().unwrap()], args].concat())
}

#[track_caller]
fn all_met(output: &Output) {
    ends(output, 0, "");
    let table = text(&output.stdout);
    assert!(table.contains("all goals are met"), "{table}");
    assert!(table.contains("spread of the total") && table.contains("kfree_rcu()"), "{table}");
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
    for name in ["forkexec.slabtrace", "hackbench.slabtrace", "tr64k_hb_smp4.slabtrace"] {
        let root = parsed(&real(name, &["--check", "--no-look-ahead", "--json"]), 0);
        let counted: Vec<&Value> =
            root["goals"].as_array().unwrap().iter().filter(|g| !g["met"].is_null()).collect();
        assert_eq!(counted.len(), 1, "{counted:?}");
    }
}

#[test]
fn wrong_rules_are_seen() {
    for rule in ["cpu_partial=12", "min_partial=0", "min_partial=20"] {
        let root = parsed(&real("forkexec.slabtrace", &["--check", "--json", "--set", rule]), 1);
        assert_eq!(root["settings"]["set"], json!([rule]));
    }
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
fn help_has_examples_keys_counters_and_the_way_to_a_snapshot() {
    let help = slabyard(&["--help"]);
    for part in [
        "Examples:",
        "--no-look-ahead",
        "min_partial: ",
        "cpu_partial_drain: ",
        "Exit codes",
        "/sys/kernel/slab",
    ] {
        assert!(text(&help.stdout).contains(part), "{part}");
    }
}
