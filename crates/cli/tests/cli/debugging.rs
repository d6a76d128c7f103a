//! Debugging of caches: `run --slab-debug`, and `validate` of a live process.

use crate::skipped::skip;
use crate::stage::{SLABYARD, text};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

fn slabyard(args: &[&str]) -> Output {
    Command::new(SLABYARD).args(args).stdin(Stdio::null()).output().unwrap()
}

/// Prints its id, and then makes calls; writes behind an object when it is told to.
const SCRIPT: &str = "\
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
p = libc.malloc(24)
def busy():
    while True:
        [bytes(n) for n in range(100)]
        time.sleep(0.001)
threading.Thread(target=busy, daemon=True).start()
print(os.getpid(), flush=True)
for line in sys.stdin:
    ctypes.memset(p + 24, 65, 1)
    print('written', flush=True)
os._exit(0)";

/// The program under `slabyard run`, and its own id.
struct Program {
    run: Child,
    lines: BufReader<ChildStdout>,
    pid: String,
}

/// As [`SCRIPT`], but it rests in a system call between two lines.
const AT_REST: &str = "\
import ctypes, os
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
p = libc.malloc(24)
line = bytearray(1)
print(os.getpid(), flush=True)
while os.readv(0, [line]):
    ctypes.memset(p + 24, 65, 1)
    print('written', flush=True)
os._exit(0)";

fn start(options: &[&str]) -> Option<Program> {
    start_script(SCRIPT, options)
}

fn start_script(script: &str, options: &[&str]) -> Option<Program> {
    let library = Path::new(SLABYARD).with_file_name("libslabyard_engines.so");
    let has_python = Command::new("python3").arg("--version").output().is_ok();
    if !library.exists() || !has_python {
        skip("no libslabyard_engines.so beside the command, or no python3");
        return None;
    }
    let mut command = Command::new(SLABYARD);
    command.args(["run", "--observable", "--report", "none"]).args(options);
    command.args(["--", "python3", "-c", script]).env("PYTHONMALLOC", "malloc");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = command.spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap());
    let mut pid = String::new();
    lines.read_line(&mut pid).unwrap();
    Some(Program { run, lines, pid: pid.trim().to_owned() })
}

impl Program {
    fn spoil(&mut self) {
        writeln!(self.run.stdin.as_mut().unwrap()).unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        assert_eq!(line, "written\n");
    }

    fn validate(&self) -> Output {
        slabyard(&["validate", &self.pid, "--timeout", "20"])
    }

    /// Ends it; returns what it said.
    fn end(mut self) -> String {
        drop(self.run.stdin.take());
        let mut said = String::new();
        self.run.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.run.wait().unwrap().success(), "{said}");
        said
    }
}

#[test]
fn a_live_process_looks_through_its_objects() {
    let Some(mut program) = start(&["--slab-debug=FZPU"]) else { return };
    let sound = program.validate();
    assert_eq!(sound.status.code(), Some(0), "{}", text(&sound.stderr));
    assert_eq!(text(&sound.stdout), format!("process {}: sound\n", program.pid));
    program.spoil();
    let wrong = program.validate();
    assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong.stderr));
    assert!(text(&wrong.stdout).contains(": 1 object is wrong"), "{}", text(&wrong.stdout));
    // It was restored, and the process goes on.
    assert_eq!(program.validate().status.code(), Some(0));
    let said = program.end();
    assert_eq!(
        said.matches("slabyard: BUG malloc-32: Right Redzone overwritten").count(),
        1,
        "{said}"
    );
    assert!(
        said.contains("First byte 0x41 instead of 0xcc") && said.contains("Allocated 24 bytes")
    );
}

#[test]
fn a_process_at_rest_looks_through_its_objects_by_its_helper() {
    let Some(mut program) = start_script(AT_REST, &["--helper", "--slab-debug=FZPU"]) else {
        return;
    };
    let sound = program.validate();
    assert_eq!(sound.status.code(), Some(0), "{}", text(&sound.stderr));
    program.spoil();
    let wrong = program.validate();
    assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong.stderr));
    let said = program.end();
    assert!(said.contains("malloc-32: Right Redzone overwritten"), "{said}");
}

/// Waits until a process sleeps in one call for a while: it said that it is ready before.
fn rests(pid: &str) {
    let look = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let lines =
            status.lines().filter(|line| line.contains("switches:") || line.starts_with("State:"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut last = look();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let now = look();
        if now == last && now[0].contains("S (sleeping)") {
            return;
        }
        last = now;
    }
}

/// A report looks up functions in the loader's lists, whose lock the thread may have that was stopped.
#[test]
fn a_process_at_rest_with_debugging_is_not_stopped_to_serve() {
    let Some(program) = start_script(AT_REST, &["--slab-debug=FZPU"]) else { return };
    rests(&program.pid);
    for asked in [&["validate", &program.pid][..], &["shrink", &program.pid]] {
        let refused = slabyard(&[asked, &["--timeout", "0.3"]].concat());
        assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stdout));
        let said = text(&refused.stderr);
        assert!(said.contains("debugging") && said.contains("--helper"), "{said}");
    }
    program.end();
}

#[test]
fn who_has_no_debugging_cannot_be_validated() {
    let Some(program) = start(&["--engine", "slub"]) else { return };
    let refused = program.validate();
    assert_eq!(refused.status.code(), Some(3));
    assert!(text(&refused.stderr).contains("has debugging"), "{}", text(&refused.stderr));
    assert_eq!(program.end(), "");
    assert_eq!(slabyard(&["validate", "kernel"]).status.code(), Some(3));
}

#[test]
fn the_sites_of_a_cache_with_tracks_are_shown_and_of_others_it_is_said_why_not() {
    let Some(program) = start(&["--slab-debug=U,malloc-32"]) else { return };
    let shown = slabyard(&["show", &program.pid, "malloc-32", "--traces"]);
    let (out, said) = (text(&shown.stdout), text(&shown.stderr));
    assert!(shown.status.success(), "{said}");
    assert!(out.starts_with("malloc-32\n") && out.contains(" live objects keep "), "{out}");
    assert!(out.contains(" allocated, ") && out.contains("[/"), "{out}");

    // Of several caches those that have tracks.
    let json = slabyard(&["show", &program.pid, "malloc-[36]*", "--traces", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).expect("one object");
    let traces = &json["traces"];
    let objects = |site: &serde_json::Value| site["objects"].as_u64().unwrap();
    let sum: u64 = traces["alloc"].as_array().unwrap().iter().map(objects).sum();
    assert_eq!(
        (traces["cache"].as_str(), traces["objects"].as_u64()),
        (Some("malloc-32"), Some(sum))
    );
    assert!(sum > 0);

    let refused = slabyard(&["show", &program.pid, "malloc-64", "--traces"]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(text(&refused.stderr).contains("--slab-debug=U,CACHE"), "{}", text(&refused.stderr));
    assert_eq!(slabyard(&["show", &program.pid, "--traces"]).status.code(), Some(2));
    program.end();
}

#[test]
fn rules_that_are_none_are_refused() {
    for rules in ["--slab-debug=X", "--slab-debug=F,a*b", "--slab-debug=malloc-64"] {
        let refused = slabyard(&["run", rules, "--", "true"]);
        assert_eq!(refused.status.code(), Some(2), "{rules}");
    }
}
