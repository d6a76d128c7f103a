//! Shrinking, and setting tunables: of the running kernel, and of a process on the real library.

use crate::skipped::skip;
use crate::stage::{SLABYARD, text};
use serde_json::Value as Json;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn slabyard(args: &[&str]) -> Output {
    Command::new(SLABYARD).args(args).stdin(Stdio::null()).output().unwrap()
}

fn json(args: &[&str]) -> Json {
    let output = slabyard(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A cache that every kernel has and that nobody minds being shrunk.
const CACHE: &str = "kmalloc-8k";

fn kernel_may_be_changed() -> bool {
    let file = format!("/sys/kernel/slab/{CACHE}/shrink");
    let may = nix::unistd::access(Path::new(&file), nix::unistd::AccessFlags::W_OK).is_ok();
    if !may {
        skip("this kernel's caches cannot be shrunk by us");
    }
    may
}

#[test]
fn a_kernels_cache_is_shrunk_and_its_live_objects_are_exact() {
    if !kernel_may_be_changed() {
        return;
    }
    let value = json(&["shrink", "kernel", CACHE, "--json", "--watch", "0.01", "--samples", "2"]);
    assert_eq!(value["caches_shrunk"], 1);
    assert_eq!(value["failed"], Json::Array(Vec::new()));
    let samples = value["samples"].as_array().unwrap();
    let sides: Vec<_> = samples.iter().map(|s| s["side"].as_str().unwrap()).collect();
    assert_eq!(sides, ["before", "before", "after", "after"]);
    assert!(samples.iter().all(|s| s["totals"]["slab"].as_u64() > Some(0)), "{value}");
    let output = slabyard(&["shrink", "kernel", CACHE]);
    let shown = text(&output.stdout);
    assert!(shown.contains(CACHE) && shown.contains("1 cache shrunk in "), "{shown}");
    assert!(shown.lines().any(|l| l.starts_with("slab ")), "{shown}");
}

#[test]
fn a_kernels_attribute_is_set_to_what_it_is() {
    if !kernel_may_be_changed() {
        return;
    }
    let now = json(&["show", "kernel", CACHE, "--json"])["cache"]["min_partial"].clone();
    let output = slabyard(&["set", "kernel", CACHE, &format!("min_partial={now}")]);
    assert_eq!(text(&output.stdout), format!("{CACHE}: min_partial {now} -> {now}\n"));
    let code = |args: &[&str]| slabyard(&[&["set", "kernel"], args].concat()).status.code();
    assert_eq!(code(&[CACHE, "order=1"]), Some(2), "it cannot be set");
    assert_eq!(code(&[CACHE, "min_partial=x"]), Some(3), "the kernel refuses it");
    assert_eq!(code(&["no-such-cache", "min_partial=1"]), Some(3));
}

/// A program on the library beside the command, which allocates and frees until its
/// standard input ends.
struct Program(Child);

impl Program {
    fn start(script: &str) -> Option<Program> {
        Program::start_with(script, &[])
    }

    fn start_with(script: &str, options: &[(&str, &str)]) -> Option<Program> {
        let library = Path::new(SLABYARD).with_file_name("libslabyard_malloc.so");
        let has_python = Command::new("python3").arg("--version").output().is_ok();
        if !library.exists() || !has_python {
            skip("no libslabyard_malloc.so beside the command, or no python3");
            return None;
        }
        let mut command = Command::new("python3");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.env("LD_PRELOAD", library).env("SLABYARD_OBSERVABLE", "1");
        command.envs(options.iter().copied());
        // Each object of the interpreter by malloc, not from its own pools.
        command.env("PYTHONMALLOC", "malloc");
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Some(Program(child))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const BUSY: &str = "\
print('ready', flush=True)
while True:
    [bytes(n) for n in range(2000)]";

const IDLE: &str = "\
import sys
print('ready', flush=True)
sys.stdin.read()";

/// Makes no call after it has said that it is ready, and ends if its call is interrupted for good.
const ASLEEP: &str = "\
import ctypes
libc = ctypes.CDLL(None)
kept = [bytes(n) for n in range(20000)]
del kept
print('ready', flush=True)
libc.pause()";

/// Its threads sleep, and wait for each other.
const THREADS_ASLEEP: &str = "\
import sys, threading, queue
waits = queue.Queue()
over = threading.Event()
threads = [threading.Thread(target=waits.get) for _ in range(3)]
threads += [threading.Thread(target=over.wait) for _ in range(3)]
[thread.start() for thread in threads]
kept = [bytes(n) for n in range(20000)]
del kept
print('ready', flush=True)
sys.stdin.read()
over.set()
[waits.put(n) for n in range(3)]
[thread.join() for thread in threads]";

/// Waits until the library's thread of a process has nothing to give back and sleeps.
fn helper_rests(pid: &str) {
    let switches = || {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let mut status = threads
            .map(|thread| std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap());
        let helper = status.find(|status| status.starts_with("Name:\tslabyard\n"));
        let helper = helper.expect("it has a helper");
        helper.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap().to_owned()
    };
    let mut last = switches();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(500));
        let now = switches();
        if now == last {
            return;
        }
        last = now;
    }
}

#[test]
fn a_helper_answers_for_a_process_that_sleeps() {
    for mode in ["auto", "slots"] {
        let options = [("SLABYARD_HELPER", "1"), ("SLABYARD_MODE", mode)];
        let Some(mut program) = Program::start_with(ASLEEP, &options) else { return };
        let pid = program.pid();
        helper_rests(&pid);
        for _ in 0..2 {
            let value = json(&["shrink", &pid, "--json", "--timeout", "20"]);
            assert!(value["caches_shrunk"].as_u64() > Some(1), "{mode}: {value}");
        }
        let set = ["set", &pid, "malloc-64", "min_partial=3", "--timeout", "20"];
        let output = slabyard(&set);
        assert!(text(&output.stdout).contains(" -> 3\n"), "{}", text(&output.stderr));
        let cache = &json(&["show", &pid, "malloc-64", "--json"])["cache"];
        assert_eq!(cache["min_partial"], 3);
        assert!(program.0.try_wait().unwrap().is_none(), "its own call goes on");
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        for thread in threads {
            let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            assert!(status.contains("TracerPid:\t0\n"), "nobody stays: {status}");
        }
    }
}

#[test]
fn a_process_is_shrunk_and_set_while_it_runs() {
    let Some(program) = Program::start(BUSY) else { return };
    let pid = program.pid();
    let value = json(&["list", &pid, "--json"]);
    assert_eq!(value["source"]["kind"], "process");
    let value = json(&["shrink", &pid, "--json", "--timeout", "20"]);
    assert!(value["caches_shrunk"].as_u64() > Some(1), "{value}");
    assert!(value["bytes_returned"].is_u64(), "{value}");

    let set = |args: &[&str]| slabyard(&[&["set", &pid, "--timeout", "20"], args].concat());
    let output = set(&["malloc-64", "sheaf_capacity=10", "min_partial=3"]);
    let said = text(&output.stdout).to_owned();
    assert!(said.contains(" -> 10\n") && said.contains("min_partial"), "{said}{output:?}");
    let cache = &json(&["show", &pid, "malloc-64", "--json"])["cache"];
    assert_eq!((&cache["sheaf_capacity"], &cache["min_partial"]), (&10.into(), &3.into()));
    let output = set(&["yard", "node_limit=4M"]);
    assert!(text(&output.stdout).ends_with(" -> 4194304\n"), "{output:?}");
    for (args, code, hint) in [
        (["malloc-64", "colour=1"], 2, "sheaf_capacity"),
        (["malloc-64", "sheaf_capacity=1000000"], 2, "1022"),
        (["malloc-64", "sheaf_capacity=many"], 2, "expected a number"),
        (["malloc-65", "sheaf_capacity=1"], 3, "malloc-65"),
    ] {
        let output = set(&args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(text(&output.stderr).contains(hint), "{}", text(&output.stderr));
    }
}

/// What waits may wait for ever: for its input, in a sleep, and for what other threads do.
#[test]
fn a_process_at_rest_is_shrunk_and_set_and_goes_on() {
    for script in [IDLE, ASLEEP, THREADS_ASLEEP] {
        let Some(mut program) = Program::start(script) else { return };
        let pid = program.pid();
        for _ in 0..2 {
            let value = json(&["shrink", &pid, "--json", "--timeout", "20"]);
            assert!(value["caches_shrunk"].as_u64() > Some(1), "{value}");
        }
        let output = slabyard(&["set", &pid, "malloc-64", "min_partial=3", "--timeout", "20"]);
        assert!(text(&output.stdout).contains(" -> 3\n"), "{}", text(&output.stderr));
        assert!(program.0.try_wait().unwrap().is_none(), "its own call goes on");
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        for thread in threads {
            let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            assert!(status.contains("TracerPid:\t0\n"), "nobody stays: {status}");
        }
        if script != ASLEEP {
            drop(program.0.stdin.take());
            assert!(program.0.wait().unwrap().success());
        }
    }
}

#[test]
fn a_request_that_an_idle_process_does_not_serve_is_taken_back() {
    let Some(program) = Program::start(IDLE) else { return };
    let pid = program.pid();
    let shrink = ["shrink", &pid, "--timeout", "0.2", "--no-stop"];
    let set = ["set", &pid, "malloc-64", "min_partial=3", "--timeout", "0.2", "--no-stop"];
    // The second finds no other in its way.
    for args in [&shrink[..], &set] {
        let output = slabyard(args);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stdout));
        let said = text(&output.stderr);
        let names = ["nothing waits", "--timeout", "run --helper"];
        assert!(names.iter().all(|name| said.contains(name)), "{said}");
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    }
}

#[test]
fn who_interrupts_a_request_takes_it_back() {
    let Some(program) = Program::start(IDLE) else { return };
    let pid = program.pid();
    let mut shrink = Command::new(SLABYARD);
    shrink.args(["shrink", &pid, "--timeout", "300", "--no-stop"]).stdin(Stdio::null());
    let child = shrink.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The same signal again until it has come: it is caught from the first request on.
    let catches = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        u64::from_str_radix(caught.unwrap().trim(), 16).unwrap() & 2 != 0
    };
    while !catches() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let own = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(own, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("taken back"), "{}", text(&output.stderr));
    let set = ["set", &pid, "malloc-64", "min_partial=3", "--timeout", "0.2", "--no-stop"];
    let set = slabyard(&set);
    assert!(text(&set.stderr).contains("nothing waits"), "{}", text(&set.stderr));
}

#[test]
fn a_pattern_sets_every_cache_that_it_names() {
    let Some(program) = Program::start(BUSY) else { return };
    let pid = program.pid();
    let output = slabyard(&["set", &pid, "malloc-6[04]", "min_partial=3", "--timeout", "20"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("malloc-64: min_partial"), "{output:?}");
    let output = slabyard(&["set", &pid, "malloc-*", "min_partial=4", "--timeout", "20"]);
    assert!(text(&output.stdout).lines().count() > 10, "{output:?}");
    let output = slabyard(&["set", &pid, "nosuch-*", "min_partial=4"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}
