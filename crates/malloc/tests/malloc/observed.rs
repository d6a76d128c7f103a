//! Reads real processes from outside while they run on the library.
//!
//! The programs `observed/*.c` publish what they hold; `slabyard_observe` must report the same.
//! They are read without being stopped, except where a test says so. Neighbours: `process_runner`
//! compiles and starts the programs; [`asking`] tests the requests of other processes, and
//! `standing` requests to processes that make no calls.

mod asking;
mod profiled;
mod standing;

use crate::process_runner::{LIMIT, Mode, Program, SIGCONT, SIGSTOP, kill};
use slabyard_abi::counters::CacheCounters;
use slabyard_abi::stats::Counter;
use slabyard_observe::process::sample;
use slabyard_observe::{ReadScope, Reading, Snapshot, Value, corefile, identity};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MODES: [Mode; 16] = [
    Mode::Rseq,
    Mode::OwnRseq,
    Mode::Slots,
    Mode::TinyRseq,
    // Lists that count objects and freeze; slabs; objects exactly; frozen late.
    Mode::CpuSlabs("5.9", "release"),
    Mode::CpuSlabs("6.1", "slabs"),
    Mode::CpuSlabs("6.1", "exact"),
    Mode::CpuSlabs("6.18", "release"),
    Mode::CpuSlabsSlots("6.8"),
    Mode::Mixed("release"),
    Mode::Mixed("exact"),
    Mode::SlabRseq,
    Mode::SlabNodes,
    Mode::SlubNodes,
    Mode::SlabSlots,
    Mode::SlobRseq,
];

/// A process of a test: it ends with the test.
struct Target {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Target {
    /// Starts a program and waits until it is ready; `None` without a compiler.
    fn start(source: &str, mode: Mode, arguments: &[&str]) -> Option<Target> {
        Target::start_with(source, mode, arguments, &[])
    }

    fn start_with(
        source: &str,
        mode: Mode,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Option<Target> {
        let mut child = Program::compile(source, &[])?.start_with(mode, arguments, variables);
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut target = Target { child, lines };
        assert_eq!(target.line(), "ready");
        Some(target)
    }

    fn known(mode: Mode) -> Option<Target> {
        Target::start("observed/known.c", mode, &[])
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        line.trim().to_owned()
    }

    fn write(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{line}").expect("the program reads");
    }

    /// Sends the program a command, and waits until it is done.
    fn command(&mut self, line: &str) {
        self.write(line);
        assert_eq!(self.line(), "done");
    }

    fn look(&self) -> Snapshot {
        sample(self.pid(), ReadScope::default()).expect("a look")
    }

    fn signal(&self, signal: i32) {
        assert!(kill(signal, &self.child, false));
    }

    /// Stops the process, and waits until all its threads stand.
    fn stop(&self) {
        self.signal(SIGSTOP);
        let stands = || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("tasks");
            tasks.flatten().all(|task| {
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with('T'))
            })
        };
        let end = Instant::now() + LIMIT;
        while !stands() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(stands(), "all threads stop");
    }
}

fn exact(snapshot: &Snapshot, cache: &str, field: &str) -> u64 {
    let found = snapshot.cache(cache).unwrap_or_else(|| panic!("no cache {cache}"));
    let value = found.value(field);
    value.and_then(Value::exact).unwrap_or_else(|| panic!("{cache} {field}: {value:?}"))
}

#[test]
fn the_difference_of_two_looks_is_what_was_allocated() {
    for mode in MODES {
        let Some(mut target) = Target::known(mode) else { return };
        // Of SLOB, a header of 16 bytes and 13 units more.
        let (cache, each) = match mode {
            Mode::SlobRseq => ("slob", 14),
            _ => ("malloc-208", 1),
        };
        let live = |target: &Target| exact(&target.look(), cache, "live");
        let before = live(&target);
        target.command("a 12345 200");
        assert_eq!(live(&target), before + 12345 * each, "{mode:?}");
        target.command("f 345");
        assert_eq!(live(&target), before + 12000 * each, "{mode:?}");
        target.command("f 12000");
        assert_eq!(live(&target), before, "{mode:?}");
    }
}

#[test]
fn a_look_names_the_engine() {
    let engines = [
        (Mode::Rseq, "slub"),
        (Mode::TinyRseq, "tiny"),
        (Mode::SlabRseq, "slab"),
        (Mode::SlabNodes, "slab"),
        (Mode::SlubNodes, "slub"),
    ];
    for (mode, engine) in engines {
        let Some(target) = Target::known(mode) else { return };
        assert_eq!(target.look().total("engine"), Some(&Value::Text(engine.into())));
    }
}

#[test]
fn the_places_of_a_standing_process_add_up_to_the_byte() {
    for mode in MODES {
        let Some(mut target) = Target::known(mode) else { return };
        for line in ["a 50000 64", "a 100 300000", "a 7 3000000", "f 90", "a 9999 1000"] {
            target.command(line);
            target.stop();
            let look = target.look();
            assert_eq!(identity::check(&look), [], "{mode:?} {line}");
            assert_eq!(look.total("in_transit"), Some(&Value::Exact(0)));
            let is_known =
                |value: &Value| value.exact().is_some() || matches!(value, Value::Text(_));
            assert!(look.totals.values().all(is_known), "{:?}", look.totals);
            assert_eq!(look.missing, []);
            target.signal(SIGCONT);
        }
    }
}

#[test]
fn threads_that_were_stopped_anywhere_are_told_within_bounds() {
    let Some(mut crowd) = Crowd::start(8, 20_000, 5) else { return };
    let base = exact(&crowd.target.look(), "malloc-512", "live");
    crowd.target.command("");
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(3));
        crowd.target.stop();
        let look = crowd.target.look();
        assert_eq!(identity::check(&look), []);
        let live = look.cache("malloc-512").and_then(|c| c.value("live")?.bounds());
        let (low, high) = live.expect("a number");
        // It stands, between a call and its count at most.
        let held = crowd.held() + base;
        assert!(
            low <= held + crowd.threads && held <= high + crowd.threads,
            "{low}..{high} {held}"
        );
        crowd.target.signal(SIGCONT);
    }
}

/// A file for the counts of this many threads, one word per cache line.
fn counts_of(path: &str, threads: u64) -> File {
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(true).open(path);
    let counts = file.expect("a file for the counts");
    counts.set_len(64 * threads).expect("room for the counts");
    counts
}

/// What the threads have counted together.
fn counted(counts: &File, threads: u64) -> u64 {
    let mut bytes = vec![0; 64 * threads as usize];
    counts.read_exact_at(&mut bytes, 0).expect("the counts");
    let words = bytes.chunks(64).map(|line| *line.first_chunk().expect("a word"));
    words.map(u64::from_le_bytes).fold(0, u64::wrapping_add)
}

/// A crowd of threads that allocate without end, and the file that they count in.
struct Crowd {
    target: Target,
    counts: File,
    threads: u64,
    objects: u64,
    burst: u64,
}

impl Crowd {
    fn start(threads: u64, objects: u64, burst: u64) -> Option<Crowd> {
        let path = format!("{}/crowd.{burst}.counts", env!("CARGO_TARGET_TMPDIR"));
        let counts = counts_of(&path, threads);
        let numbers = [threads, objects, burst].map(|n| n.to_string());
        let [a, b, c] = numbers.each_ref().map(String::as_str);
        let target = Target::start("observed/crowd.c", Mode::Rseq, &[&path, a, b, c])?;
        Some(Crowd { target, counts, threads, objects, burst })
    }

    /// What the threads say that they hold.
    fn held(&self) -> u64 {
        counted(&self.counts, self.threads)
    }

    /// What they hold at any time.
    fn bounds(&self) -> (u64, u64) {
        (self.objects, self.objects + self.threads * self.burst)
    }
}

#[test]
fn the_true_value_lies_in_the_range_while_threads_allocate() {
    const LOOKS: usize = 300;
    // 200 000 objects: eight slow paths with two sheaves of 64 each are half a percent.
    let Some(mut crowd) = Crowd::start(8, 200_000, 4) else { return };
    let base = exact(&crowd.target.look(), "malloc-512", "live");
    crowd.target.command("");
    let (least, most) = crowd.bounds();
    let (mut inside, mut widths, mut slow) = (0, Vec::new(), Vec::new());
    for _ in 0..LOOKS {
        let look = crowd.target.look();
        let live = look.cache("malloc-512").and_then(|c| c.value("live")).expect("live");
        let (low, high) = live.bounds().expect("a number");
        inside += usize::from(low <= most + base && high >= least + base);
        widths.push((high - low) as f64 / low as f64 * 100.0);
        slow.push(look.took_ns.unwrap_or(0) / 1000);
        // Between a call and its count, a thread holds one more than it says.
        let held = crowd.held();
        assert!((least..=most + crowd.threads).contains(&held), "the program holds {held}");
    }
    widths.sort_by(f64::total_cmp);
    slow.sort_unstable();
    let at_90 = LOOKS * 9 / 10 - 1;
    println!(
        "ranges: median {:.3} %, 90th {:.3} %, widest {:.3} % of live; looks: median {} us, slowest {} us",
        widths[LOOKS / 2],
        widths[at_90],
        widths[LOOKS - 1],
        slow[LOOKS / 2],
        slow[LOOKS - 1]
    );
    assert_eq!(inside, LOOKS);
    // Each slow path that is under way meanwhile widens it by two sheaves: a look that has no CPU for a
    // while in its midst sees many.
    assert!(widths[at_90] <= 0.5, "the 90th range of 100 is {:.3} % of live", widths[at_90]);
}

#[test]
fn a_core_file_tells_what_the_process_told() {
    for mode in [
        Mode::Rseq,
        Mode::TinyRseq,
        Mode::SlobRseq,
        MODES[4],
        MODES[6],
        MODES[7],
        MODES[9],
        MODES[11],
    ] {
        a_core_file_tells(mode);
    }
}

/// What the library counts of itself at the end, while nothing moves, equals what a look from
/// outside reported before.
#[test]
fn the_process_counts_what_is_told_from_outside() {
    for mode in MODES {
        let report = format!("{}/inside.{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
        let variables = [("SLABYARD_REPORT", report.as_str()), ("SLABYARD_DECAY_MS", "3600000")];
        let source = "observed/known.c";
        let Some(mut target) = Target::start_with(source, mode, &[], &variables) else { return };
        for line in ["a 5000 200", "f 4700", "a 3000 100", "f 2999", "a 700 3000", "f 333"] {
            target.command(line);
        }
        let want = ReadScope { all: true, slabs: false };
        let outside = sample(target.pid(), want).expect("a look");
        drop(target.child.stdin.take());
        assert!(target.child.wait().expect("its end").success(), "{mode:?}");
        let text = std::fs::read(&report).expect("a report");
        let _ = std::fs::remove_file(&report);
        let inside = slabyard_observe::report::parse(&text).expect("a sound report");
        let names = CacheCounters::NAMES.iter().copied();
        let has_none = |name: &str| match name {
            "sheaf_capacity" => mode.has_cpu_slabs() || mode.has_arrays(),
            "min_partial" => mode.has_arrays(),
            _ => false,
        };
        let names = names.filter(|name| !has_none(name));
        let used = outside.caches.iter().filter(|cache| cache.exact("slabs") > Some(0));
        let used: Vec<&str> = used.map(|cache| cache.name.as_str()).collect();
        let least = if mode == Mode::SlobRseq { 1 } else { 3 };
        assert!(used.len() >= least, "{mode:?}: {used:?}");
        for name in names {
            for cache in &used {
                let told = [&outside, &inside].map(|it| exact(it, cache, name));
                assert_eq!(told[0], told[1], "{mode:?} {cache} {name}: outside and inside");
            }
        }
        for cache in used.iter().filter(|_| mode.has_cpu_slabs()) {
            // The end of the process may add to some.
            for (name, told) in &outside.cache(cache).expect("it is used").readings {
                let is_count = Counter::ALL.iter().any(|(_, counter, _)| counter == name);
                let now = inside.cache(cache).and_then(|c| c.exact(name)).unwrap_or(0);
                assert!(!is_count || told.value.exact() <= Some(now), "{mode:?} {cache} {name}");
            }
            let exact = |name: &str| exact(&outside, cache, name);
            let ended = exact("alloc_slab") - exact("free_slab");
            assert_eq!(ended, exact("slabs"), "{mode:?} {cache}");
        }
    }
}

fn a_core_file_tells(mode: Mode) {
    let Some(mut target) = Target::known(mode) else { return };
    for line in ["a 30000 100", "a 20 500000", "a 3 2000000", "f 15"] {
        target.command(line);
    }
    target.stop();
    let prefix = format!("{}/observed", env!("CARGO_TARGET_TMPDIR"));
    let pid = target.pid().to_string();
    let dumped = Command::new("gcore").args(["-o", &prefix, &pid]).stdin(Stdio::null()).output();
    let Ok(dumped) = dumped else {
        println!("skipped: gcore is not installed");
        return;
    };
    let path = PathBuf::from(format!("{prefix}.{pid}"));
    assert!(dumped.status.success() && path.exists(), "{dumped:?}");

    let want = ReadScope { all: true, slabs: true };
    let live = sample(target.pid(), want).expect("a look");
    let core = corefile::sample(&path, want).expect("a core file");
    let whole = std::fs::read(&path).expect("the core file");
    let short = path.with_extension("short");
    std::fs::write(&short, &whole[..whole.len() / 2]).expect("half a core file");
    let truncated = corefile::sample(&short, want);
    for path in [&path, &short] {
        let _ = std::fs::remove_file(path);
    }

    assert_eq!(core.caches, live.caches);
    let mut totals = live.totals.clone();
    assert!(totals.remove("resident").is_some(), "a core file does not hold this");
    totals.retain(|name, _| !name.starts_with("resident_"));
    assert_eq!(core.totals, totals);
    assert_eq!(core.source.pid, Some(target.pid()));
    assert_eq!(core.source.program.as_deref(), Some("known"));
    assert_eq!(identity::check(&core), []);
    assert!(matches!(truncated, Err(corefile::Error::Truncated { .. })), "{truncated:?}");
}

/// What a cache has of a field at each of two memory nodes.
fn at_nodes(look: &Snapshot, cache: &str, field: &str) -> [u64; 2] {
    let reading = look.cache(cache).and_then(|cache| cache.reading(field)).expect("a reading");
    let exact = |node: u32| {
        let part = reading.nodes.iter().find(|(number, _)| *number == node);
        part.and_then(|(_, value)| value.exact()).unwrap_or_else(|| panic!("{field}: {reading:?}"))
    };
    let parts = [0, 1].map(exact);
    assert_eq!(parts.iter().sum::<u64>(), exact_of(reading), "{field}: {reading:?}");
    parts
}

fn exact_of(reading: &Reading) -> u64 {
    reading.value.exact().unwrap_or_else(|| panic!("{reading:?}"))
}

#[test]
fn a_look_tells_what_is_at_each_node() {
    for mode in [Mode::SlubNodes, Mode::SlabNodes] {
        let Some(mut target) = Target::known(mode) else { return };
        let name = "malloc-208";
        let bind = |target: &Target, cpu: &str| {
            let mut taskset = Command::new("taskset");
            taskset.args(["-a", "-p", "-c", cpu, &target.pid().to_string()]);
            let bound = taskset.stdout(Stdio::null()).stderr(Stdio::null()).status();
            bound.is_ok_and(|status| status.success())
        };
        if !bind(&target, "0") {
            return println!("not run: no taskset, or no CPU 0");
        }
        // What it had before it was bound goes.
        target.command("a 30000 200");
        let look = target.look();
        assert_eq!(look.machine.nodes, Some(2));
        let [near, far] = at_nodes(&look, name, "slabs");
        assert!(near > 20 * (far + 1), "{mode:?}: {near} and {far} slabs");
        if !bind(&target, "1") {
            return println!("not run: one CPU alone");
        }
        // Objects of node 0, freed on CPU 1: to their slabs, or to arrays that wait for node 0.
        target.command("f 20000");
        target.stop();
        let look = target.look();
        assert_eq!(identity::check(&look), []);
        let slabs = at_nodes(&look, name, "slabs");
        let partial = at_nodes(&look, name, "partial");
        let free = at_nodes(&look, name, "free_partial");
        let parked = at_nodes(&look, name, "parked_node");
        assert!(free[0] > 0 && partial[0] > 0, "{mode:?}: {free:?} {partial:?}");
        assert!((0..2).all(|node| partial[node] <= slabs[node]), "{partial:?} of {slabs:?}");
        match mode {
            Mode::SlubNodes => assert_eq!(parked, [0, 0], "its frees bypass the sheaves"),
            _ => assert!(parked[0] > 0 && parked[1] < 200, "{parked:?}"),
        }
        target.signal(SIGCONT);
        // On CPU 1 objects are node 1's.
        target.command("a 20000 200");
        assert!(at_nodes(&target.look(), name, "slabs")[1] > slabs[1], "{mode:?}");
    }
}

/// What a look reports of drains under memory pressure: why, how often, and how much was returned.
#[test]
fn a_look_tells_how_often_it_drained() {
    let count = |target: &Target, name: &str| target.look().total(name).and_then(Value::exact);
    let Some(target) = Target::known(Mode::Rseq) else { return };
    assert_eq!(count(&target, "pressure_events"), None, "the preload library has no counts");
    let Some(target) = Target::known(Mode::SlubNodes) else { return };
    assert_eq!(count(&target, "pressure_events"), None, "nothing is watched");
    drop(target);
    // What is free does not go back as time passes.
    let rests = [("SLABYARD_DECAY_MS", "3600000")];
    let started = Target::start_with("observed/known.c", Mode::SlubNodes, &[], &rests);
    let Some(mut target) = started else { return };
    // Not so much that it goes back with the frees.
    target.command("a 50000 200");
    target.command("f 50000");
    target.command("t");
    assert_eq!(count(&target, "pressure_trims"), Some(1));
    let returned = count(&target, "pressure_returned");
    assert!(returned > Some(5 << 20), "{returned:?} bytes came back of 10 MB by a trim");
    assert_eq!(count(&target, "pressure_drained"), Some(0), "none by the watch");
    target.command("t");
    assert!(
        count(&target, "pressure_returned") < returned.map(|n| n + (1 << 20)),
        "nothing was left"
    );
    // Whatever the cgroup uses is above a level of one byte; where no cgroup of the process is
    // mounted, or without a file of its usage, it is said on standard error.
    let watch = [("SLABYARD_PRESSURE", "cgroup:1")];
    let started = Target::start_with("observed/known.c", Mode::SlubNodes, &[], &watch);
    let Some(mut target) = started else { return };
    target.command("a 50000 200");
    target.command("f 50000");
    let begin = Instant::now();
    // In one look: the watch goes on.
    let all = |target: &Target| {
        let look = target.look();
        ["events", "cgroup", "stalls", "drains", "refused", "trims", "watches"]
            .map(|name| look.total(&format!("pressure_{name}")).and_then(Value::exact))
    };
    if count(&target, "pressure_watches").is_none() {
        return println!("not run: no cgroup of this process has memory");
    }
    // Each tenth look above the level is an event.
    while begin.elapsed() < LIMIT && count(&target, "pressure_drains") < Some(2) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let [events, cgroup, stalls, drains, refused, trims, watches] =
        all(&target).map(|count| count.expect("a count"));
    assert!(events >= 2 && drains >= 2 && cgroup >= drains, "{events} {cgroup} {drains}");
    assert_eq!((stalls, refused, trims, watches), (0, 0, 0, 1));
    let drained = count(&target, "pressure_drained").expect("a count");
    assert!(drained > 5 << 20, "{drained} bytes came back of 10 MB");
    // The report's view has the same names.
    assert!(target.look().total("pressure_longest_ns").is_some());
}

#[test]
fn processes_without_a_yard_are_told_apart() {
    let text = |pid| sample(pid, ReadScope::default()).expect_err("no yard").to_string();
    let me = text(std::process::id());
    assert!(me.contains("does not run on Slabyard; start it with `slabyard run"), "{me}");
    assert_eq!(text(u32::MAX), format!("there is no process {}", u32::MAX));
    let mut child = Command::new("true").spawn().expect("true");
    let stat = format!("/proc/{}/stat", child.id());
    while !std::fs::read_to_string(&stat).expect("not waited for").contains(") Z ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(text(child.id()).contains("zombie"));
    child.wait().expect("wait");
}
