//! C programs on the library: built by gcc and g++ without a warning, and run in each mode and with
//! each engine, under valgrind, and with AddressSanitizer in the program.
//!
//! A program checks itself and ends by printing [`PASSED`]. A test whose tool is not installed is
//! skipped with a message.

use serde_json::Value;
use slabyard_observe::process::RequestKind;
#[cfg(target_arch = "x86_64")]
use slabyard_observe::process::{Patience, StopThread};
use slabyard_observe::view::json;
use slabyard_observe::{ReadScope, Snapshot, identity, process};

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How a program ends that found nothing wrong.
const PASSED: i32 = 17;
/// By which `abort` ends a process, as a shell says it.
const ABORTED: i32 = 6;

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// A directory with the library, by the name that programs load: of this build's profile, or of
/// the release build beside tests of `tested`.
fn libraries() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        // <target>/<profile>/deps/<this test>
        let me = std::env::current_exe().expect("the test's own path");
        let profile_dir = me.ancestors().nth(2).expect("a profile's directory");
        let target_dir = profile_dir.parent().expect("a target directory");
        let (profile, folder) = match profile_dir.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => ("dev", "debug"),
            Some("tested") => ("release", "release"),
            Some(name) => (name, name),
        };
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "-p", "slabyard-kmem", "-p", "slabyard-malloc", "--profile"])
            .arg(profile)
            .arg("--target-dir")
            .arg(target_dir)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .expect("cargo");
        assert!(status.success(), "the library does not build");
        let built = target_dir.join(folder);
        let directory = profile_dir.join("kmem-tests");
        std::fs::create_dir_all(&directory).expect("a directory");
        for (from, to) in [("so", "libslabyard.so.0"), ("a", "libslabyard.a")] {
            let from = built.join(format!("libslabyard_kmem.{from}"));
            std::fs::copy(from, directory.join(to)).expect("the library");
        }
        let malloc = "libslabyard_malloc.so";
        std::fs::copy(built.join(malloc), directory.join(malloc)).expect("the library");
        directory
    })
}

/// True if a command is installed; says so if it is not.
fn is_there(command: &str) -> bool {
    let there = Command::new(command).arg("--version").output().is_ok();
    if !there {
        println!("skipped: {command} is not installed");
    }
    there
}

/// How a program is built.
struct Build<'a> {
    compiler: &'a str,
    arguments: &'a [&'a str],
    is_static: bool,
}

const C: Build<'_> = Build {
    compiler: "gcc",
    arguments: &["-x", "c", "-std=c99", "-D_GNU_SOURCE", "-pedantic"],
    is_static: false,
};
const CXX: Build<'_> = Build {
    compiler: "g++",
    arguments: &["-x", "c++", "-std=c++17", "-pedantic"],
    is_static: false,
};

fn build(source: &str, name: &str, how: &Build<'_>) -> Option<PathBuf> {
    if !is_there(how.compiler) {
        return None;
    }
    static NR_BUILDS: AtomicUsize = AtomicUsize::new(0);
    let program = libraries().join(name);
    // Tests build the same one at once: none finds it half written, or still open.
    let written = libraries().join(format!("{name}.{}", NR_BUILDS.fetch_add(1, Ordering::Relaxed)));
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let mut command = Command::new(how.compiler);
    command
        .args(["-Wall", "-Wextra", "-Werror", "-g", "-O1"])
        .args(how.arguments)
        .arg("-I")
        .arg(include)
        .arg(tests().join(source))
        .args(["-x", "none"])
        .arg(libraries().join(if how.is_static { "libslabyard.a" } else { "libslabyard.so.0" }))
        .args(["-lpthread", "-Wl,-rpath,$ORIGIN", "-o"])
        .arg(&written);
    let output = command.output().expect("the compiler starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{command:?}: {said}");
    std::fs::rename(&written, &program).expect("a place for it");
    Some(program)
}

/// A program that finds none of this process's variables for the library.
fn clean(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("SLABYARD_") {
            command.env_remove(variable);
        }
    }
    command.env_remove("LD_PRELOAD").env("SLABYARD_VERIFY_AT_EXIT", "1");
    command
}

fn passes(command: &mut Command) -> Output {
    let output = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(PASSED), "{command:?}: {said}");
    output
}

const SOURCES: [&str; 5] = ["caches", "kmalloc", "kernel", "readers", "stats"];

#[test]
fn programs_pass_in_each_mode_and_with_each_engine() {
    for source in SOURCES {
        let Some(program) = build(&format!("{source}.c"), source, &C) else { return };
        for mode in ["auto", "own-rseq", "slots"] {
            passes(clean(&program).env("SLABYARD_MODE", mode));
        }
        for engine in ["tiny", "slab", "slob"] {
            passes(clean(&program).env("SLABYARD_ENGINE", engine));
        }
        passes(clean(&program).env("SLABYARD_HELPER", "1").env("SLABYARD_DECAY_MS", "0"));
    }
}

/// The program has what it had without the library: as long as it makes no call nothing is mapped,
/// and later no more than it uses.
#[test]
fn limits_count_what_is_used() {
    let Some(program) = build("limited.c", "limited", &C) else { return };
    for first_use in ["never", "after", "before"] {
        for how in ["none", "setrlimit", "raw", "other", "data", "mlockall"] {
            for mode in ["auto", "slots"] {
                passes(clean(&program).args([first_use, how]).env("SLABYARD_MODE", mode));
            }
        }
    }
}

#[test]
fn programs_in_cxx_pass() {
    for source in SOURCES {
        let Some(program) = build(&format!("{source}.c"), &format!("{source}++"), &CXX) else {
            return;
        };
        passes(&mut clean(program));
    }
}

#[test]
fn programs_with_the_static_library_pass() {
    for source in SOURCES {
        let how = Build { is_static: true, ..C };
        let Some(program) = build(&format!("{source}.c"), &format!("{source}.static"), &how) else {
            return;
        };
        passes(&mut clean(program));
    }
}

#[test]
fn programs_pass_under_valgrind() {
    if !is_there("valgrind") {
        return;
    }
    for source in SOURCES {
        let Some(program) = build(&format!("{source}.c"), &format!("{source}.vg"), &C) else {
            return;
        };
        // Else a thread that waits for others by looking may be the one that runs, for minutes.
        let options = ["-q", "--fair-sched=try", "--error-exitcode=9"];
        let output = passes(clean("valgrind").args(options).arg(program));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("=="), "{said}");
    }
}

#[test]
fn programs_with_the_address_sanitizer_pass() {
    let sanitized = [C.arguments, &["-fsanitize=address"]].concat();
    let how = Build { arguments: &sanitized, ..C };
    for source in SOURCES {
        let Some(program) = build(&format!("{source}.c"), &format!("{source}.asan"), &how) else {
            return;
        };
        passes(&mut clean(program));
    }
}

#[test]
fn each_misuse_is_said_and_ends_the_program_or_has_no_effect() {
    for how in [C, CXX] {
        let name = format!("misuse-{}", how.compiler);
        let Some(program) = build("misuse.c", &name, &how) else { return };
        let list = passes(clean(&program).arg("list")).stdout;
        let list = String::from_utf8(list).expect("text");
        assert!(list.lines().count() > 20, "{list}");
        for (case, said) in list.lines().map(|line| line.split_once('\t').expect("two columns")) {
            let run = |on_error| {
                let mut command = clean(&program);
                command.arg(case).env("SLABYARD_ON_ERROR", on_error);
                // What was reported and left as it was is found again.
                command.env_remove("SLABYARD_VERIFY_AT_EXIT");
                let output = command.output().expect("the program starts");
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(text.contains(said), "{case}, {on_error}: {text}");
                assert!(text.lines().all(|line| line.starts_with("slabyard: ")), "{text}");
                output.status
            };
            use std::os::unix::process::ExitStatusExt;
            assert_eq!(run("abort").signal(), Some(ABORTED), "{case}");
            assert_eq!(run("report").code(), Some(PASSED), "{case}");
        }
    }
}

#[test]
fn equal_caches_share_slabs_where_that_is_asked_for() {
    let Some(program) = build("merge.c", "merge", &C) else { return };
    passes(clean(&program).arg("0"));
    passes(clean(&program).arg("1").env("SLABYARD_MERGE", "1"));
}

/// A snapshot of a program when it has what it makes.
fn snapshot_of(command: &mut Command) -> Snapshot {
    watched(command, |pid| process::sample(pid, ReadScope::default()).expect("a snapshot"))
}

/// What is seen of a program between its first line and the end of its input.
fn watched<T>(command: &mut Command, see: impl FnOnce(u32) -> T) -> T {
    command.env("SLABYARD_OBSERVABLE", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("it");
    assert_eq!(line, "ready\n");
    let seen = see(child.id());
    drop(child.stdin.take());
    let status = child.wait().expect("the program ends");
    assert_eq!(status.code(), Some(PASSED));
    seen
}

/// The caches of both libraries in one process, by name and exactly.
#[test]
fn caches_are_shown_by_name_beside_those_of_malloc() {
    let Some(program) = build("observed.c", "observed", &C) else { return };
    for preload in [None, Some(libraries().join("libslabyard_malloc.so"))] {
        let mut command = clean(&program);
        command.envs(preload.iter().map(|library| ("LD_PRELOAD", library)));
        let snapshot = snapshot_of(&mut command);
        let live = |name: &str| snapshot.cache(name)?.exact("live");
        assert_eq!(live("connection"), Some(900));
        assert_eq!(live("session"), Some(30));
        assert_eq!(live("kmalloc-1024"), Some(7));
        let malloc = live("malloc-1024");
        assert!(
            if preload.is_some() { malloc >= Some(50) } else { malloc.is_none() },
            "{malloc:?}"
        );
        assert_eq!(identity::check(&snapshot), []);
        assert_eq!(snapshot.missing, []);
    }
}

/// Faults of `tools.c`: what memcheck says of each, and AddressSanitizer or the library beside it.
const FAULTS: [(&str, &str, &str); 7] = [
    ("after", "8 bytes inside a block of size 40 free'd", "use-after-poison"),
    ("after_bulk", "block of size 40 free'd", "use-after-poison"),
    ("after_shrink", "0 bytes inside a block of size 40 free'd", "use-after-poison"),
    ("beyond", "0 bytes after a block of size 40 alloc'd", "use-after-poison"),
    ("twice", "Invalid free()", "Object already free (double free)"),
    ("block_after", "bytes inside a block of size", "use-after-poison"),
    ("leak", "40 bytes in 1 blocks are definitely lost", "Objects remaining"),
];
const CORRECT: [&str; 3] = ["clean", "constructed", "read_by_readers"];

/// Runs a program of `tools.c` with each fault, and without one.
fn faults_are_found(run: impl Fn(&str) -> Command, said: impl Fn(usize) -> &'static str) {
    for (nth, (fault, ..)) in FAULTS.iter().enumerate() {
        let output = run(fault).output().expect("the program starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(said(nth)), "{fault}: {text}");
        let frame = if *fault == "leak" { "maker" } else { fault };
        assert!(text.contains(frame), "{fault}: no frame of {frame} in {text}");
    }
    for correct in CORRECT {
        let output = passes(&mut run(correct));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("==") && !text.contains("slabyard"), "{correct}: {text}");
    }
}

#[test]
fn memcheck_finds_faults_in_objects() {
    if !is_there("valgrind") {
        return;
    }
    let Some(program) = build("tools.c", "tools", &C) else { return };
    let run = |fault: &str| {
        let mut command = clean("valgrind");
        command.args(["-q", "--leak-check=full"]).arg(&program).arg(fault);
        command
    };
    faults_are_found(run, |nth| FAULTS[nth].1);
}

#[test]
fn the_address_sanitizer_finds_faults_in_objects() {
    let sanitized = [C.arguments, &["-fsanitize=address"]].concat();
    let how = Build { arguments: &sanitized, ..C };
    let Some(program) = build("tools.c", "tools.asan", &how) else { return };
    let run = |fault: &str| {
        let mut command = clean(&program);
        command.arg(fault);
        command
    };
    faults_are_found(run, |nth| FAULTS[nth].2);
}

/// The document's example, as it is printed there.
#[test]
fn the_example_of_statistics_runs() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/object-caches.md");
    let text = std::fs::read_to_string(document).expect("the document");
    let blocks = text.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next());
    let example = blocks.into_iter().find(|block| block.contains("int main")).expect("an example");
    let source = libraries().join("example.c");
    std::fs::write(&source, example).expect("a file");
    let Some(program) = build(source.to_str().expect("a path"), "example", &C) else { return };
    let output = clean(program).output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "connection       1 to 1 live, 32768 bytes\n");
}

#[test]
fn limits_are_said_with_what_to_do() {
    let Some(program) = build("limits.c", "limits", &C) else { return };
    let output = passes(&mut clean(program));
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = said.lines().collect();
    let [sheaf, caches] = lines[..] else { panic!("{said}") };
    assert!(sheaf.contains("sheaf_capacity 1023 is above 1022: set 1022 at most"), "{said}");
    assert!(caches.contains("there are 4025 caches, as many as there may be: destroy"), "{said}");
}

/// The text from inside has what the command reads from outside, key by key.
#[test]
fn statistics_from_inside_are_those_of_the_command() {
    let Some(program) = build("stats.c", "stats.json", &C) else { return };
    for engine in ["slub", "tiny", "slab", "slob"] {
        let mut command = clean(&program);
        command.arg("json").env("SLABYARD_ENGINE", engine).env("SLABYARD_OBSERVABLE", "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        assert_eq!(lines.next().expect("a line").expect("text"), "ready");
        let mut inside = String::new();
        while inside.lines().last() != Some("}") {
            inside += &(lines.next().expect("a line").expect("text") + "\n");
        }
        let snapshot = process::sample(child.id(), ReadScope::default()).expect("a snapshot");
        drop(child.stdin.take());
        assert_eq!(child.wait().expect("the program ends").code(), Some(PASSED));
        let mut outside = Vec::new();
        let caches: Vec<_> = snapshot.caches.iter().collect();
        json::write(&mut outside, &snapshot, &caches).expect("memory");
        let inside: Value = serde_json::from_str(&inside).expect("JSON");
        let outside: Value = serde_json::from_slice(&outside).expect("JSON");
        assert_eq!(inside["source"]["pid"], outside["source"]["pid"]);
        let (caches, others) = (&inside["caches"], &outside["caches"]);
        let nr = caches.as_array().expect("caches").len();
        assert_eq!(nr, others.as_array().expect("caches").len());
        let mut compared = 0;
        let pairs = (0..nr).map(|i| (&caches[i], &others[i]));
        for (inside, outside) in pairs.chain([(&inside["totals"], &outside["totals"])]) {
            for (key, value) in inside.as_object().expect("keys") {
                assert_eq!(value, &outside[key], "{engine}: {key} of {}", outside["name"]);
                compared += 1;
            }
        }
        assert!(compared > 20 * nr, "{compared}");
    }
}

/// In bytes, of all calls of statistics, beside what a thread that does nothing uses.
const MOST_STACK: u64 = 4096;

#[test]
fn statistics_need_little_stack() {
    let Some(program) = build("stats.c", "stats.stack", &C) else { return };
    for engine in ["slub", "tiny", "slab", "slob"] {
        let output = passes(clean(&program).arg("stack").env("SLABYARD_ENGINE", engine));
        let text = String::from_utf8(output.stdout).expect("text");
        let [nothing, look] = [0, 1].map(|nth| {
            text.lines().nth(nth).and_then(|line| line.parse::<u64>().ok()).expect("a number")
        });
        println!("{engine}: {} bytes", look - nothing);
        assert!(look < nothing + MOST_STACK, "{engine}: {look} bytes, {nothing} for nothing");
    }
}

/// A shrink of a whole process is for each yard: malloc's and that of object caches.
#[test]
fn a_shrink_reaches_all_yards_of_a_process() {
    const PATIENCE: Duration = Duration::from_secs(120);
    const NAMES: [&str; 2] = ["connection", "malloc-208"];
    let slabs = |snapshot: &Snapshot, name| snapshot.cache(name)?.exact("slabs");
    let Some(program) = build("shrunk.c", "shrunk", &C) else { return };
    let mut command = clean(&program);
    command.env("LD_PRELOAD", libraries().join("libslabyard_malloc.so"));
    command.env("SLABYARD_DECAY_MS", "3600000");
    let whole = RequestKind::Shrink { cache: None };
    let (before, asked, after) = watched(&mut command, |pid| {
        // On a slow machine a call is often under way, and changes what is read.
        let begin = Instant::now();
        let look = || loop {
            let snapshot = process::sample(pid, ReadScope::default()).expect("a snapshot");
            let is_exact = NAMES.iter().all(|name| slabs(&snapshot, name).is_some());
            if is_exact || begin.elapsed() > PATIENCE {
                return snapshot;
            }
        };
        (look(), process::ask_each(pid, &whole, PATIENCE).expect("it is asked"), look())
    });
    assert_eq!(asked.len(), 2, "{asked:?}");
    for yard in asked {
        assert!(yard.caches > 0, "{yard:?}");
        assert!(yard.answer.expect("it is served").bytes > 0);
    }
    for name in NAMES {
        let (before, after) = (slabs(&before, name), slabs(&after, name));
        // The longer frees take, the more of what they leave empty they give back themselves.
        assert!(before > after && after <= Some(2), "{name}: {before:?}, then {after:?}");
    }
}

/// A thread that waits for its input serves both libraries' requests.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_process_at_rest_is_shrunk_in_all_its_yards() {
    let Some(program) = build("observed.c", "observed", &C) else { return };
    let mut command = clean(&program);
    command.env("LD_PRELOAD", libraries().join("libslabyard_malloc.so"));
    let stop_thread = StopThread::AfterIdle { after: Duration::ZERO };
    let patience = Patience { deadline: Duration::from_secs(60), stop: &|| false, stop_thread };
    let asked = watched(&mut command, |pid| {
        process::ask_each_within(pid, &RequestKind::Shrink { cache: None }, patience)
            .expect("it is asked")
    });
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked.iter().all(|yard| yard.answer.is_ok()), "{asked:?}");
}

#[test]
fn merged_caches_are_shown_with_all_their_names() {
    let Some(program) = build("observed.c", "observed", &C) else { return };
    let mut command = clean(&program);
    command.env("SLABYARD_MERGE", "1").args(["link", "socket", "link"]);
    let snapshot = snapshot_of(&mut command);
    let cache = snapshot.cache("connection").expect("the cache");
    assert_eq!(cache.aliases, ["link", "socket"]);
    assert_eq!(cache.exact("live"), Some(900));
    assert_eq!(snapshot.cache("session").expect("the other").aliases, [""; 0]);
}

/// Each fault in an object of a cache with debugging is named, with both stacks: by flags at its
/// creation, and by the environment.
#[test]
fn faults_in_objects_are_named_where_a_cache_has_debugging() {
    let Some(program) = build("debug.c", "debug", &C) else { return };
    let faults = [
        ("none", ""),
        ("above", "BUG faulty: Right Redzone overwritten"),
        ("below", "BUG faulty: Left Redzone overwritten"),
        ("twice", "BUG faulty: Object already free (double free)"),
        ("after", "BUG faulty: Poison overwritten (use after free)"),
    ];
    let mut resized = clean(&program);
    let output = passes(resized.args(["krealloc", "env"]).env("SLABYARD_DEBUG", "FZPU"));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    for (fault, said) in faults {
        for from in ["flags", "env"] {
            let mut command = clean(&program);
            command.args([fault, from]).env("SLABYARD_ON_ERROR", "report");
            if from == "env" {
                command.env("SLABYARD_DEBUG", "FZPU,faulty");
            }
            let output = passes(&mut command);
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(text.contains(said), "{fault} by {from}: {text}");
            assert_eq!(text.contains("Allocated 60 bytes"), !said.is_empty(), "{text}");
            assert_eq!(text.contains("BUG"), !said.is_empty(), "{text}");
        }
    }
}

/// What coroutines, small threads and handlers can count on: each function on a painted stack.
#[test]
fn small_stacks_suffice() {
    let bound = Build { arguments: &[C.arguments, &["-Wl,-z,now"]].concat(), ..C };
    let Some(program) = build("stack.c", "stack", &bound) else { return };
    let settings: [&[(&str, &str)]; 7] = [
        &[],
        &[("SLABYARD_MODE", "own-rseq"), ("GLIBC_TUNABLES", "glibc.pthread.rseq=0")],
        &[("SLABYARD_MODE", "slots")],
        &[("SLABYARD_ENGINE", "tiny")],
        &[("SLABYARD_ENGINE", "slab")],
        &[("SLABYARD_ENGINE", "slob")],
        &[("SLABYARD_FRONT", "cpu-slabs")],
    ];
    for settings in settings {
        passes(clean(&program).env("SLABYARD_DECAY_MS", "2").envs(settings.iter().copied()));
    }
    let output = clean(&program).arg("planted").output().expect("the program starts");
    assert_eq!(output.status.code(), Some(1), "a frame of 8 KiB passes");
    assert!(String::from_utf8_lossy(&output.stderr).contains("planted: "), "{output:?}");
}
