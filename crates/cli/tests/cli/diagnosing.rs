//! `slabyard doctor` on planted cases, each of which it must find first, on healthy programs, in
//! which it must find nothing, and on what it cannot read.

use crate::skipped::skip;
use crate::stage::{SLABYARD, cases, real_engines, real_library, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A program that waits, and is killed in the end.
struct Running(Child);

impl Running {
    /// A case of `cases.c`, which has come to rest or begun to leak; `None` without a C compiler.
    fn case(words: &str, variables: &[(&str, &str)]) -> Option<Running> {
        let mut command = Command::new(cases()?);
        command.args(words.split(' ')).env("LD_PRELOAD", real_library());
        command.envs(variables.iter().copied());
        Some(Running::say(&mut command))
    }

    /// The same on the C library's own heap.
    fn elsewhere(words: &str) -> Option<Running> {
        let mut command = Command::new(cases()?);
        Some(Running::say(command.args(words.split(' '))))
    }

    fn say(command: &mut Command) -> Running {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Running(child)
    }

    fn doctor(&self, args: &[&str]) -> Output {
        let pid = self.0.id().to_string();
        slabyard(&[&["doctor", &pid], args].concat())
    }

    /// What the doctor says to programs, and its exit code.
    fn told(&self, args: &[&str], code: i32) -> Value {
        let output = self.doctor(&[&["--json"], args].concat());
        let said = text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{said}{}", text(&output.stderr));
        serde_json::from_str(said).unwrap()
    }

    /// Waits until it waits: its first thread sleeps, and no thread took CPU time for a while. However
    /// slow the machine is, what still starts is runnable, or waits for a disk.
    fn come_to_rest(&self) {
        let look = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
            let words: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
            assert_ne!(words[0], "Z", "it ended");
            (words[0] == "S").then(|| [words[11], words[12]].map(String::from))
        };
        let mut last = None;
        let mut alike = 0;
        while alike < 3 {
            std::thread::sleep(Duration::from_millis(50));
            let now = look();
            alike = if now.is_some() && now == last { alike + 1 } else { 0 };
            last = now;
        }
    }

    /// The kernel's count of resident bytes.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn slabyard(args: &[&str]) -> Output {
    Command::new(SLABYARD).args(args).stdin(Stdio::null()).output().unwrap()
}

fn sum(told: &Value) -> i64 {
    let parts = told["verdict"]["parts"].as_array().unwrap();
    parts.iter().map(|part| part["bytes"].as_i64().unwrap()).sum()
}

fn part(told: &Value, name: &str) -> u64 {
    let parts = told["verdict"]["parts"].as_array().unwrap().iter();
    let part = parts.clone().find(|part| part["name"] == name);
    part.map_or(0, |part| part["bytes"].as_u64().unwrap())
}

/// Asserts that the parts add up to what the kernel counts as resident, within two hundredths, and
/// that nearly all of it has a name.
fn adds_up(told: &Value, resident: u64) {
    let sum = sum(told);
    let resident = i64::try_from(resident).unwrap();
    assert!((sum - resident).abs() * 50 <= resident, "{sum} of {resident}");
    let unexplained = told["verdict"]["parts"].as_array().unwrap().last().unwrap();
    assert_eq!(unexplained["name"], "unexplained");
    assert!(unexplained["bytes"].as_i64().unwrap().abs() * 50 <= resident, "{unexplained}");
}

/// Each case with two sizes: the rule, the words of its sentence, and how much of the memory in
/// hundredths is at stake at least.
const PLANTED: [(&str, &str, &str, u64); 12] = [
    ("fragmented 64 200", "fragmented.cache", "kept by the few objects that are left", 80),
    ("fragmented 40 1000 16", "fragmented.cache", "kept by the few objects that are left", 50),
    ("one-object 64 200 81", "fragmented.one-object", "One object keeps a slab each", 80),
    ("one-object 48 64 512", "fragmented.one-object", "One object keeps a slab each", 80),
    ("calcified 64 64 16", "calcified.classes", "The demand moved to other size classes", 30),
    ("calcified 100 32", "calcified.classes", "The demand moved to other size classes", 30),
    ("mapped 64 0", "outside.mappings", "mappings that the program made itself", 90),
    ("shared 100 0", "outside.files", "shared memory", 90),
    ("static 64 0", "outside.static", "static variables of the program", 90),
    ("stacks 0 0 16", "outside.stacks", "stacks of threads", 80),
    ("stacks 0 0 50", "outside.stacks", "stacks of threads. The process has 51 threads.", 80),
    ("hoard 0 200000 64", "hoard.threads", "is hoarded: free objects and pages in ", 50),
];

#[test]
fn each_planted_case_is_found_first_and_its_numbers_add_up() {
    for (words, id, says, percent) in PLANTED {
        let variables: &[(&str, &str)] = match id {
            "hoard.threads" => &[("SLABYARD_MODE", "slots")],
            _ => &[],
        };
        let Some(running) = Running::case(words, variables) else { return };
        let told = running.told(&[], 1);
        let first = &told["findings"][0];
        assert_eq!(first["id"], id, "{words}: {first}");
        let said = first["says"].as_str().unwrap();
        let says_all = says.split(". ").all(|part| said.contains(part.trim_end_matches('.')));
        assert!(says_all, "{words}: {said}");
        let resident = running.resident();
        let bytes = first["bytes"].as_u64().unwrap();
        assert!(bytes * 100 >= resident * percent, "{words}: {bytes} of {resident}");
        adds_up(&told, resident);
    }
}

#[test]
fn a_leak_among_short_lived_objects_is_found_while_it_grows() {
    for (words, class) in [("leak 0 100 1", "malloc-112"), ("leak 0 2000 5", "malloc-2048")] {
        let Some(running) = Running::case(words, &[]) else { return };
        let told = running.told(&["--watch", "3"], 1);
        let first = &told["findings"][0];
        // By samples.
        assert_eq!(first["id"], "leak.site", "{first}");
        assert_eq!(first["caches"][0], class, "{first}");
        let said = first["says"].as_str().unwrap();
        assert!(said.contains("grows and does not stop") && said.contains("leak"), "{said}");
        assert_eq!(told["looks"], 6);
    }
}

#[test]
fn a_leak_is_named_though_the_system_ends_the_process_meanwhile() {
    let Some(running) = Running::case("leak 0 100 1", &[]) else { return };
    let pid = running.0.id();
    let start = Instant::now();
    running.doctor(&["--json"]);
    let look = start.elapsed();
    let mut command = Command::new(SLABYARD);
    command.args(["doctor", &pid.to_string(), "--json", "--watch", "10"]);
    let watching = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A look each two seconds, or as fast as the machine looks.
    std::thread::sleep(Duration::from_secs(6).max(3 * look));
    kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL).unwrap();
    let output = watching.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &told["findings"][0];
    assert_eq!(first["id"], "leak.site", "{told}");
    assert!(first["says"].as_str().unwrap().contains("leak"), "{first}");
    let missing = told["missing"].as_array().unwrap().iter();
    assert!(missing.clone().any(|it| it["what"] == "call sites of allocations"), "{told}");
}

#[test]
fn a_process_whose_memory_goes_away_has_ended_and_is_not_one_of_another_allocator() {
    // Enough that the system needs some time to take it back.
    let Some(mut running) = Running::case("mapped 800 0", &[]) else { return };
    let pid = running.0.id().to_string();
    running.0.kill().unwrap();
    loop {
        let output = slabyard(&["list", &pid]);
        let said = text(&output.stderr);
        assert!(!said.contains("does not run on Slabyard"), "{said}");
        if said.contains("zombie") {
            break;
        }
    }
}

#[test]
fn a_leak_is_named_by_its_call_site_where_tracks_are_kept() {
    let Some(program) = cases() else { return };
    let mut command = Command::new(program);
    // Among ten million that live briefly.
    command.args(["leaked", "4", "100", "30"]).env("LD_PRELOAD", real_engines());
    let running = Running::say(command.env("SLABYARD_DEBUG", "U,malloc-112"));
    let told = running.told(&[], 1);
    let first = &told["findings"][0];
    assert_eq!(first["id"], "leak.site", "{first}");
    let said = first["says"].as_str().unwrap();
    assert!(said.contains("leak") && said.contains("41943 objects of malloc-112"), "{said}");
}

#[test]
fn what_keeps_the_slabs_after_a_burst_is_named_where_tracks_are_kept() {
    let Some(program) = cases() else { return };
    let mut command = Command::new(program);
    command.args(["fragmented", "32", "200", "5"]).env("LD_PRELOAD", real_engines());
    let running = Running::say(command.env("SLABYARD_DEBUG", "U,malloc-208"));
    let told = running.told(&[], 1);
    let found = told["findings"].as_array().unwrap();
    let fragmented = found.iter().find(|found| found["id"] == "fragmented.cache");
    let said = fragmented.expect("fragmentation")["says"].as_str().unwrap();
    assert!(
        said.contains("What keeps the slabs of malloc-208: most of its live objects"),
        "{said}"
    );
    assert!(said.contains(" < pin < burst"), "{said}");
}

#[test]
fn a_burst_whose_pages_went_back_is_no_finding() {
    let Some(running) = Running::case("burst 64 1000", &[]) else { return };
    let told = running.told(&[], 0);
    assert!(sum(&told) < 32 << 20, "{}", told["verdict"]);
    assert_eq!(told["verdict"]["beside"][0]["name"], "given_back");
    assert!(told["verdict"]["beside"][0]["bytes"].as_u64().unwrap() > 48 << 20);
}

#[test]
fn memory_that_is_wanted_is_a_note() {
    let Some(running) = Running::case("live 64 300", &[]) else { return };
    let told = running.told(&[], 0);
    assert_eq!(told["outcome"], "nothing_found");
    assert_eq!(told["findings"].as_array().unwrap().len(), 0);
    assert_eq!(told["notes"][0]["id"], "live");
    assert!(told["notes"][0]["says"].as_str().unwrap().starts_with("It is simply live"));
    let output = running.doctor(&[]);
    assert!(text(&output.stdout).contains(": nothing found\n"), "{}", text(&output.stdout));
}

#[test]
fn blocks_that_were_never_touched_are_in_no_part() {
    let Some(running) = Running::case("untouched 512 0", &[]) else { return };
    let told = running.told(&[], 0);
    assert!(sum(&told) < 32 << 20, "{}", told["verdict"]);
    adds_up(&told, running.resident());
}

#[test]
fn a_heap_of_the_c_library_is_seen_from_outside_alone() {
    let Some(running) = Running::elsewhere("fragmented 100 200") else { return };
    let told = running.told(&[], 3);
    assert_eq!(told["outcome"], "cannot_tell");
    assert_eq!(told["notes"][0]["id"], "unseen.heap");
    assert!(part(&told, "heap") > 90 << 20);
    adds_up(&told, running.resident());
    let output = running.doctor(&[]);
    assert!(text(&output.stdout).contains("cannot tell, because"), "{}", text(&output.stdout));
    let Some(small) = Running::elsewhere("live 1 200") else { return };
    small.told(&[], 0);
    let Some(mapped) = Running::elsewhere("mapped 80 0") else { return };
    assert_eq!(mapped.told(&[], 1)["findings"][0]["id"], "outside.mappings");
}

/// How to look at a program while it has work behind it.
struct Healthy {
    program: &'static str,
    args: &'static [&'static str],
    /// What it reads; then it waits for more.
    reads: &'static str,
    /// It says so when it is ready.
    says: bool,
}

const fn healthy(program: &'static str, args: &'static [&'static str]) -> Healthy {
    Healthy { program, args, reads: "", says: true }
}

const fn reads(
    program: &'static str,
    args: &'static [&'static str],
    text: &'static str,
) -> Healthy {
    Healthy { program, args, reads: text, says: false }
}

const HEALTHY: [Healthy; 11] = [
    healthy(
        "python3",
        &[
            "-c",
            "import json,time\nx=[str(i)*3 for i in range(200000)]\ny=json.loads(json.dumps(x))\n\
             print('ready',flush=True)\ntime.sleep(600)",
        ],
    ),
    healthy(
        "perl",
        &["-e", "my %h; $h{$_} = \"x$_\" for 1..100000; $| = 1; print \"ready\\n\"; sleep 600"],
    ),
    healthy("bash", &["-c", "for i in {1..20000}; do a[$i]=$i; done; echo ready; read x"]),
    healthy(
        "awk",
        &[
            "BEGIN { for (i = 0; i < 100000; i++) a[i] = \"x\" i; print \"ready\"; fflush(); getline }",
        ],
    ),
    // It ends where it is to listen nowhere.
    healthy(
        "redis-server",
        &[
            "--unixsocket",
            concat!(env!("CARGO_TARGET_TMPDIR"), "/redis.sock"),
            "--save",
            "",
            "--port",
            "0",
            "--loglevel",
            "notice",
            "--logfile",
            "",
        ],
    ),
    healthy(
        "node",
        &[
            "-e",
            "global.x=[...Array(100000).keys()].map(String);console.log('ready');setInterval(()=>{},1e6)",
        ],
    ),
    reads(
        "sqlite3",
        &[":memory:"],
        "create table t(a,b); with recursive n(i) as (values(1) union all select i+1 from n where \
         i<100000) insert into t select i, 'x'||i from n;\n",
    ),
    reads("jq", &["-n", "[range(100000)|tostring] as $x | input"], "1"),
    reads("sort", &["-n"], "3\n1\n2\n"),
    reads("git", &["cat-file", "--batch"], "HEAD\n"),
    reads(
        "gcc",
        &["-x", "c", "-c", "-o", "/dev/null", "-"],
        "#include <stdio.h>\nint main(void) {\n",
    ),
];

#[test]
fn nothing_is_found_in_healthy_programs() {
    for Healthy { program, args, reads, says } in HEALTHY {
        let mut command = Command::new(program);
        command.args(args).env("LD_PRELOAD", real_library());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else {
            skip(&format!("{program} is not installed"));
            continue;
        };
        child.stdin.as_mut().unwrap().write_all(reads.as_bytes()).unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let running = Running(child);
        let mut line = String::new();
        while says && !line.to_lowercase().contains("ready") {
            line.clear();
            assert!(out.read_line(&mut line).unwrap() > 0, "{program} ended");
        }
        running.come_to_rest();
        let told = running.told(&[], 0);
        assert_eq!(told["outcome"], "nothing_found", "{program}: {told}");
        adds_up(&told, running.resident());
    }
}

#[test]
fn this_kernel_is_judged_and_its_parts_add_up() {
    let output = slabyard(&["doctor", "kernel", "--json"]);
    if output.status.code() == Some(3) {
        // Not root: slabinfo is not for others.
        assert!(!output.stderr.is_empty());
        return;
    }
    assert!(output.status.code() <= Some(1), "{}", text(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let whole = told["verdict"]["bytes"].as_u64().unwrap();
    adds_up(&told, whole);
    assert_eq!(told["verdict"]["of"], "slab");
    assert!(part(&told, "live") > 0, "{}", told["verdict"]);
}

#[test]
fn what_cannot_be_looked_at_is_said_with_the_right_code() {
    for (args, code, says) in [
        (&["doctor", "/nowhere"][..], 3, "/nowhere"),
        (&["doctor", "4194999"], 3, "there is no process 4194999"),
        (&["doctor", "2"], 3, "thread of the kernel"),
        (&["doctor", "kernel", "--watch", "0"], 2, "at least 1 second"),
        (&["doctor", "kernel", "kernel", "--watch", "1"], 2, "name one"),
        (&["doctor", "/nowhere", "--watch", "1"], 3, "/nowhere"),
        (&["doctor", "kernel", "kernel", "kernel"], 2, ""),
    ] {
        let output = slabyard(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
    }
}

/// Somebody who may neither load programs nor read events is told what everybody may know, and what
/// root would be told.
#[test]
fn a_watch_by_nobody_tells_the_totals_and_what_is_lacking() {
    const NOBODY: u32 = 65534;
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("skipped: only root can be nobody");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("slabyard");
    fs::copy(SLABYARD, &program).unwrap();
    for path in [place.path(), &program] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(&program);
    command.args(["doctor", "kernel", "--watch", "1"]).uid(NOBODY).gid(NOBODY);
    let output = command.current_dir("/").output().unwrap();
    let printed = text(&output.stdout);
    for part in
        ["slab memory after 1 s", "  all: ", "Without BPF programs", "Without events of tracefs"]
    {
        assert!(printed.contains(part), "no {part:?} in\n{printed}{}", text(&output.stderr));
    }
}

#[test]
fn a_watch_of_the_kernel_names_owners_or_says_why_not() {
    let output = slabyard(&["doctor", "kernel", "--watch", "2", "--budget", "20", "--json"]);
    let code = output.status.code().unwrap();
    if code == 3 && !text(&output.stderr).is_empty() {
        eprintln!("skipped: {}", text(&output.stderr));
        return;
    }
    assert!(code <= 1, "{}", text(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let watch = &told["watch"];
    assert!(watch["took_ns"].as_u64().unwrap() >= 2_000_000_000, "{watch}");
    if watch["means"] == "bpf" {
        assert!(watch["cost"]["events"].as_u64().unwrap() > 0, "{watch}");
        assert!(watch["caches"].as_array().unwrap().iter().any(|it| it["cache"] == "dentry"));
    } else {
        let missing = watch["missing"][0].to_string();
        assert!(missing.contains("BPF") && missing.contains("who allocates"), "{missing}");
    }
    let refused = slabyard(&["doctor", "kernel", "--budget", "5"]);
    assert_eq!(refused.status.code(), Some(2));
}
