//! Reads a process with CPU slabs, and its core file: what CPUs hold, what was counted, and
//! requests to flush it.

use crate::skipped::skip;
use crate::stage::{self, SLABYARD, text};
use serde_json::Value as Json;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// The class of the objects of `holds.c`.
const CACHE: &str = "malloc-208";

fn slabyard(args: &[&str]) -> Output {
    Command::new(SLABYARD).args(args).stdin(Stdio::null()).output().unwrap()
}

fn printed(args: &[&str]) -> String {
    let output = slabyard(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout).to_owned()
}

fn json(args: &[&str]) -> Json {
    serde_json::from_str(&printed(&[args, &["--json"]].concat())).unwrap()
}

/// What a refusal says; nothing is printed beside it.
fn refused(args: &[&str]) -> String {
    let output = slabyard(args);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), ""), "{args:?}");
    text(&output.stderr).to_owned()
}

struct Program {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Program {
    /// `None`, said aloud, without a C compiler.
    fn start(library: &Path, variables: &[(&str, &str)]) -> Option<Program> {
        let mut command = Command::new(stage::holds()?);
        command.env("LD_PRELOAD", library).env("SLABYARD_OBSERVABLE", "1");
        command.env("SLABYARD_DECAY_MS", "3600000").envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut program = Program { child, lines };
        program.expect("ready\n");
        Some(program)
    }

    fn with_cpu_slabs(release: &str) -> Option<Program> {
        let variables = [
            ("SLABYARD_ENGINE", "slub"),
            ("SLABYARD_FRONT", "cpu-slabs"),
            ("SLABYARD_RELEASE", release),
            ("SLABYARD_COUNT", "1"),
        ];
        Program::start(stage::real_engines(), &variables)
    }

    fn expect(&mut self, want: &str) {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert_eq!(line, want);
    }

    /// Has it make slow paths while a command asks for one.
    fn asked(&mut self, args: &[&str]) -> String {
        let mut command = Command::new(SLABYARD);
        command.args(args).args(["--timeout", "20"]).stdin(Stdio::null());
        let mut asks = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        while asks.try_wait().unwrap().is_none() {
            writeln!(self.child.stdin.as_mut().unwrap(), "turn").unwrap();
            self.expect("done\n");
        }
        let output = asks.wait_with_output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout).to_owned()
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Numbers of a line of a dump, by name: `page` and `base` have base 16.
fn numbers(line: &str) -> Vec<(String, u64)> {
    let pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
    let base = |name: &str| if matches!(name, "page" | "base") { 16 } else { 10 };
    pairs.map(|(name, n)| (name.into(), u64::from_str_radix(n, base(name)).unwrap())).collect()
}

#[test]
fn lists_are_dumped_as_the_patch_of_2021_has_them() {
    let Some(program) = Program::with_cpu_slabs("5.9") else { return };
    let pid = program.pid();
    let value = json(&["show", &pid, CACHE]);
    let cache = &value["cache"];
    assert_eq!(cache["front"], "cpu-slabs");
    assert_eq!((&cache["freezing"], &cache["accounting"]), (&"eager".into(), &"objects".into()));
    let number = |name: &str| cache[name].as_u64().unwrap_or_else(|| panic!("{name}: {cache}"));
    assert_eq!(number("live"), 300);
    let listed = number("slabs_cpu_partial");
    assert!(listed > 10 && number("empties_parked") >= listed - 1, "{cache}");
    assert_eq!(number("empties_bytes"), number("empties_parked") * (4096 << number("order")));
    // Each slab joined as its first object was freed.
    assert_eq!(number("objects_cpu_partial"), listed);

    let dump = printed(&["show", &pid, CACHE, "--cpu-partial"]);
    let (cpus, lines): (Vec<&str>, Vec<&str>) =
        dump.lines().filter(|line| !line.is_empty()).partition(|line| !line.starts_with(' '));
    assert_eq!(lines.len() as u64, listed, "{dump}");
    assert!(cpus.iter().all(|line| line.starts_with("malloc-208 on ") && line.ends_with(':')));
    let names = ["page", "base", "order", "partial_pages", "partial_objects", "objects", "inuse"];
    for line in &lines {
        let line = numbers(line);
        assert_eq!(line.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
    }
    let tail = numbers(lines.last().unwrap());
    assert_eq!((&tail[3].1, &tail[4].1), (&1, &1), "{dump}");

    let shown = &json(&["show", &pid, CACHE, "--cpu-partial"])["caches"][0];
    let slabs = shown["partial_slabs"].as_array().unwrap();
    let pages = |slabs: &[Json]| slabs.iter().map(|s| s["page"].as_u64()).collect::<Vec<_>>();
    let dumped: Vec<_> = lines.iter().map(|line| Some(numbers(line)[0].1)).collect();
    assert_eq!(pages(slabs), dumped);
    let form = shown["slabs_cpu_partial"].as_str().unwrap();
    assert!(form.starts_with(&format!("{listed}({listed}) C")), "{form}");
    assert!(printed(&["show", &pid, CACHE]).contains(&format!("\nslabs_cpu_partial: {form}\n")));
    assert!(printed(&["show", &pid, "--cpu-partial"]).contains(&dump), "of all caches");
}

#[test]
fn what_was_counted_is_shown_by_cpu() {
    let Some(program) = Program::with_cpu_slabs("6.1") else { return };
    let pid = program.pid();
    let value = json(&["show", &pid, CACHE, "--counts"]);
    let cache = &value["cache"];
    let of = |name: &str| cache[name].as_u64().unwrap_or_else(|| panic!("{name}: {cache}"));
    assert_eq!(of("alloc_slab") - of("free_slab"), json(&["show", &pid, CACHE])["cache"]["slabs"]);
    let by_cpu = cache["cpus"].as_object().unwrap().values();
    let sum: u64 = by_cpu.filter_map(|cpu| cpu["free_slowpath"].as_u64()).sum();
    assert_eq!(sum, of("free_slowpath"));
    let drains = cache["drains"].as_array().unwrap();
    let frees: u64 = drains.iter().map(|size| size["frees"].as_u64().unwrap()).sum();
    assert_eq!(frees, of("free_slowpath"), "each slow free drained some number of slabs");
    assert!(drains.iter().any(|size| size["least"].as_u64() > Some(0)), "{drains:?}");

    let page = printed(&["show", &pid, CACHE, "--counts"]);
    let slow = page.lines().find(|line| line.starts_with("free_slowpath ")).unwrap();
    assert!(slow.contains(" C") && slow.contains(&of("free_slowpath").to_string()), "{slow}");
    assert!(page.contains("\nslabs drained ") && page.contains("\nslabs_per_list_lock "), "{page}");
    let all = &json(&["show", &pid, "--counts"])["cache"];
    assert!(all["free_slowpath"].as_u64() >= Some(of("free_slowpath")), "{all}");
    let series = printed(&["export", &pid]);
    assert!(series.contains("slabyard_slow_path_events_total{event=\"list_lock\"}"), "{series}");
}

#[test]
fn empty_slabs_go_back_alone_and_limits_change() {
    let Some(mut program) = Program::with_cpu_slabs("5.9") else { return };
    let pid = program.pid();
    let of = |pid: &str, name: &str| json(&["show", pid, CACHE])["cache"][name].as_u64().unwrap();
    assert!(of(&pid, "empties_parked") > 10);
    let said: Json =
        serde_json::from_str(&program.asked(&["shrink", "--empties", &pid, CACHE, "--json"]))
            .unwrap();
    let pair = &said["caches"][0]["empties_parked"];
    assert!(pair["before"].as_u64() > Some(10) && pair["after"] == 0, "{said}");
    assert_eq!(of(&pid, "empties_parked"), 0);
    let listed = of(&pid, "slabs_cpu_partial");
    assert!(listed > 0, "the others stay");

    let said = program.asked(&["set", &pid, CACHE, "cpu_partial=7"]);
    assert_eq!(said, "malloc-208: cpu_partial 30 -> 7\n");
    assert_eq!((of(&pid, "cpu_partial"), of(&pid, "slabs_cpu_partial")), (7, 0));
    let said = refused(&["set", &pid, CACHE, "sheaf_capacity=7"]);
    assert!(said.contains("has CPU slabs, and so no sheaf_capacity"), "{said}");
    let said = program.asked(&["shrink", &pid]);
    assert!(said.contains("empties parked") && said.contains("\nempties_parked "), "{said}");
}

#[test]
fn a_core_file_tells_the_same() {
    for release in ["5.9", "6.1", "6.8"] {
        let Some(program) = Program::with_cpu_slabs(release) else { return };
        let pid = program.pid();
        let directory = tempfile::TempDir::new().unwrap();
        let core = directory.path().join("core");
        let mut dump = Command::new("gcore");
        let dumped = dump.arg("-o").arg(&core).arg(&pid).stdin(Stdio::null()).output();
        if !dumped.is_ok_and(|output| output.status.success()) {
            skip("core files: gcore does not work here");
            return;
        }
        let core = format!("{}.{pid}", core.display());
        for args in [&[CACHE][..], &["--cpu-partial"], &["--counts"]] {
            let [live, dead] =
                [&pid, &core].map(|of| json(&[&["show", of.as_str()], args].concat()));
            assert_eq!(live["cache"], dead["cache"], "{release} {args:?}");
            assert_eq!(live["caches"], dead["caches"], "{release} {args:?}");
        }
        assert!(printed(&["list", &core]).contains("\nempties_parked "), "{release}");
    }
}

#[test]
fn a_process_with_sheaves_says_what_it_has_not() {
    let Some(program) = Program::start(stage::real_library(), &[]) else { return };
    let pid = program.pid();
    let said = refused(&["set", &pid, CACHE, "cpu_partial=3"]);
    assert!(said.contains("has no CPU slabs, and so no cpu_partial"), "{said}");
    for args in [&["show", &pid, "--cpu-partial"][..], &["shrink", "--empties", &pid]] {
        let said = refused(args);
        assert!(said.contains("--set front=cpu-slabs"), "{args:?}: {said}");
    }
    assert!(refused(&["show", &pid, "--counts"]).contains("--set count=1"));
    assert!(printed(&["show", &pid, CACHE]).contains("slow paths are not counted; `slabyard run"));
    let said = refused(&["show", &pid, "--sheaves"]);
    assert!(said.contains("of the running kernel alone"), "{said}");
}

#[test]
fn lost_slabs_are_missed() {
    let variables = [
        ("SLABYARD_ENGINE", "slub"),
        ("SLABYARD_FRONT", "cpu-slabs"),
        ("SLABYARD_RELEASE", "6.8"),
        ("SLABYARD_CPU_PARTIAL_LISTS", "0"),
        ("SLABYARD_PLANTED", "lost-slabs"),
    ];
    let Some(mut program) = Program::start(stage::real_engines(), &variables) else { return };
    let lost = |pid: &str| printed(&["list", pid]).contains("slabs are lost");
    for _ in 0..20 {
        writeln!(program.child.stdin.as_mut().unwrap(), "turn").unwrap();
        program.expect("done\n");
    }
    assert!(lost(&program.pid()));
}
