//! `slabyard record --kernel`, on the running kernel, where the tests are root and it has tracefs;
//! elsewhere a message says that the tests are skipped.

use crate::skipped::skip;
use crate::stage::{SLABYARD, text};
use crate::traces::{ends, parsed};
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn slabyard(args: &[&str]) -> Output {
    Command::new(SLABYARD).args(args).stdin(Stdio::null()).output().unwrap()
}

/// A directory to record into; `None` where a kernel cannot be recorded.
fn room() -> Option<TempDir> {
    let output = slabyard(&["record", "--restore"]);
    if output.status.success() {
        return Some(TempDir::new().unwrap());
    }
    let why = text(&output.stderr);
    skip(&format!("recording a kernel: {why}"));
    None
}

fn path(room: &TempDir, name: &str) -> String {
    room.path().join(name).to_str().unwrap().into()
}

/// Programs one after the other, and many at once, for which slabs have to be made: a replay knows
/// by their pages where the kernel's memory begins.
const SOME_LOAD: &str = "for i in 1 2 3 4 5 6 7 8 9; do ls / >/dev/null; done; \
     i=0; while [ $i -lt 100 ]; do sleep 0.5 & i=$((i+1)); done; wait; exit 7";

#[test]
fn a_command_is_recorded_with_all_that_a_replay_needs() {
    let Some(room) = room() else { return };
    let file = path(&room, "load.slabtrace");
    let args = ["record", "-o", &file, "--kernel", "--buffer", "8M", "--", "sh", "-c", SOME_LOAD];
    let output = slabyard(&args);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{told}");
    assert!(told.contains("bytes an event") && !told.contains("lost"), "{told}");

    let info = parsed(&slabyard(&["trace", "info", &file, "--json"]), 0);
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(info["release"], release.trim());
    // Where the kernel lets nobody read its memory a line says why.
    let has_lists = !told.contains("what lies on the caches' lists is not recorded");
    if !has_lists {
        skip(&format!("no lists: {told}"));
    }
    let lists = if has_lists { r#""lists","# } else { "" };
    let holds = format!(r#"["start",{lists}"end","shrunk","recording"]"#);
    // Other tests may shrink caches meanwhile.
    let held = info["holds"].to_string().replace(r#""shrink","#, "");
    assert_eq!(held, holds);
    assert_eq!(info["lists"]["slabs"].as_u64().unwrap_or(0) > 100, has_lists, "{info}");
    assert_eq!((&info["lost"], &info["recording"]["exit"]), (&0.into(), &7.into()));
    // To read lists takes thousands of the recorder's own: the kernel leaves them out, or a line says
    // why it does not.
    let own = info["recording"]["left_out"].as_u64().unwrap();
    let are_kept = told.contains("fills the kernel's buffers with the recorder's own events");
    assert!(are_kept || own < 1000, "{info}");
    assert_eq!(told.contains("were the recorder's own"), own > 0, "{told}");
    if are_kept {
        skip(&format!("the recorder's own events take room: {told}"));
    }
    // Who holds what is known by its call site, of a cache's own objects as well.
    let all = parsed(&slabyard(&["trace", "info", &file, "--json", "--top", "999"]), 0);
    let holders = all["live_at_end"].as_array().unwrap();
    let of_caches = || {
        let is_own =
            |it: &&serde_json::Value| !it["cache"].as_str().unwrap().starts_with("kmalloc");
        holders.iter().filter(is_own)
    };
    assert!(of_caches().count() > 0 && of_caches().all(|it| it["site"].is_string()), "{all}");
    // Nine programs were started; each is a task and some.
    assert!(info["events"].as_u64().unwrap() > 1000, "{info}");
    assert!(info["kinds"]["kmem_cache_alloc"].as_u64().unwrap() > 300, "{info}");

    let replayed = Command::new(SLABYARD).args(["replay", &file, "--json"]).output().unwrap();
    assert!(replayed.status.code().unwrap() < 2, "{}", text(&replayed.stderr));
    let replayed: serde_json::Value = serde_json::from_slice(&replayed.stdout).unwrap();
    assert_eq!(replayed["source"]["start"], file);
    let starts = |options: &[&str]| {
        let all = [&["replay", &file, "--json"], options].concat();
        let output = Command::new(SLABYARD).args(all).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        json["settings"]["start"].as_str().unwrap().to_owned()
    };
    assert_eq!(starts(&[]), if has_lists { "lists" } else { "look-ahead" });
    assert_eq!(starts(&["--no-lists"]), "look-ahead");

    // A copy that names nothing gives the same.
    let copy = path(&room, "public.slabtrace");
    ends(&slabyard(&["trace", "anonymise", &file, "-o", &copy]), 0, "");
    let again = Command::new(SLABYARD).args(["replay", &copy, "--json"]).output().unwrap();
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["totals"], replayed["totals"]);
    assert_eq!(again["counters"], replayed["counters"]);
    let bytes = fs::read(&copy).unwrap();
    assert!(memchr_of(&bytes, b"sh -c").is_none(), "the command's line is in the copy");
}

fn memchr_of(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[test]
fn a_recording_ends_by_its_size_and_the_command_goes_on() {
    let Some(room) = room() else { return };
    let (file, mark) = (path(&room, "load.slabtrace"), path(&room, "done"));
    let script = format!("i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done; echo >{mark}");
    let args = ["record", "-o", &file, "--kernel", "--no-shrink", "--max-size", "4K"];
    let output = slabyard(&[&args[..], &["--", "sh", "-c", &script]].concat());
    ends(&output, 0, "as large as --max-size lets it be");
    assert!(fs::exists(mark).unwrap());
    let info = parsed(&slabyard(&["trace", "info", &file, "--json"]), 0);
    assert_eq!(info["recording"]["full"], true);
}

#[test]
fn a_full_disk_ends_the_recording_and_leaves_nothing_in_the_kernel() {
    if room().is_none() {
        return;
    }
    let args =
        ["record", "-o", "/dev/full", "--kernel", "--no-shrink", "--", "sh", "-c", SOME_LOAD];
    let output = slabyard(&args);
    ends(&output, 3, "/dev/full");
    let told = text(&output.stderr);
    assert!(told.contains("No space left") && told.contains("--max-size"), "{told}");
}

#[test]
fn caches_are_picked() {
    let Some(room) = room() else { return };
    let file = path(&room, "filp.slabtrace");
    let args = ["record", "-o", &file, "--kernel", "--no-shrink", "--caches", "filp"];
    let output = slabyard(&[&args[..], &["--", "sh", "-c", SOME_LOAD]].concat());
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let info = parsed(&slabyard(&["trace", "info", &file, "--json", "--top", "99"]), 0);
    assert_eq!(info["kinds"]["kmalloc"], 0);
    let caches = info["caches"].as_array().unwrap();
    assert!(caches.iter().any(|cache| cache["name"] == "filp"), "{info}");
    let wrong = slabyard(&["record", "-o", &file, "--kernel", "--caches", "no-such-cache"]);
    ends(&wrong, 3, "no cache named `no-such-cache`");
}

fn recorder(file: &str) -> Child {
    let args = ["record", "-o", file, "--kernel", "--no-shrink", "--duration", "60"];
    let child = Command::new(SLABYARD).args(args).stderr(Stdio::null()).spawn().unwrap();
    // The file comes after the instance.
    until("the recording begins", || fs::metadata(file).is_ok_and(|meta| meta.len() > 0));
    child
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(600), "{what}: waited for it in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn children(pid: u32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let children: String = children.collect::<Vec<_>>().join(" ");
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

fn kill(pid: i32) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL).unwrap();
}

#[test]
fn a_killed_recorder_leaves_nothing_in_the_kernel() {
    let Some(room) = room() else { return };
    let mut child = recorder(&path(&room, "a.slabtrace"));
    let name = format!("slabyard-{}-", child.id());
    let guard = children(child.id());
    assert_eq!(guard.len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    until("the guard ends", || {
        !fs::exists(format!("/proc/{}/stat", guard[0])).unwrap() || is_dead(guard[0])
    });
    assert!(!text(&slabyard(&["record", "--restore"]).stdout).contains(&name));

    // Without the guard it is left, and removed when asked for.
    let mut child = recorder(&path(&room, "b.slabtrace"));
    let name = format!("slabyard-{}-", child.id());
    children(child.id()).into_iter().for_each(kill);
    child.kill().unwrap();
    child.wait().unwrap();
    // A recorder of another test removes it as well, when it begins.
    let is_gone = || {
        let instances = fs::read_dir("/sys/kernel/tracing/instances");
        let is_it = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&name);
        instances.is_ok_and(|entries| !entries.flatten().any(is_it))
    };
    until("what was left is removed", || {
        text(&slabyard(&["record", "--restore"]).stdout).contains(&name) || is_gone()
    });
}

/// What a replay starts from is in the file as soon as it begins.
#[test]
fn a_killed_recorder_leaves_the_lists_in_its_file() {
    let Some(room) = room() else { return };
    let file = path(&room, "killed.slabtrace");
    let args = ["record", "-o", &file, "--kernel", "--no-shrink", "--duration", "60"];
    let mut child = Command::new(SLABYARD).args(args).stderr(Stdio::piped()).spawn().unwrap();
    // The file begins within a second of the lists, or of what is said in their place.
    until("the recording begins", || fs::metadata(&file).is_ok_and(|meta| meta.len() > 0));
    std::thread::sleep(Duration::from_millis(500));
    child.kill().unwrap();
    let told = child.wait_with_output().unwrap().stderr;
    let info = parsed(&slabyard(&["trace", "info", &file, "--json"]), 1);
    if text(&told).contains("what lies on the caches' lists is not recorded") {
        skip("the kernel lets nobody read its lists");
    } else {
        // Other tests may shrink caches meanwhile.
        assert!(info["holds"].to_string().starts_with(r#"["start","lists""#), "{info}");
    }
    let output = slabyard(&["replay", &file, "--partial"]);
    assert!(output.status.code().unwrap() < 2, "{}", text(&output.stderr));
}

/// A signal that a process sends to the recorder alone goes to the command, whichever it is.
#[test]
fn an_interrupt_of_the_recorder_reaches_the_command() {
    let Some(room) = room() else { return };
    let file = path(&room, "interrupted.slabtrace");
    let ready = path(&room, "ready");
    let script = "trap 'exit 9' INT; trap 'exit 8' TERM; : >\"$0\"; while :; do sleep 0.05; done";
    let command = ["--", "sh", "-c", script, &ready];
    for (signal, code) in [(Signal::SIGINT, 9), (Signal::SIGTERM, 8)] {
        let args = [&["record", "-o", &file, "--kernel", "--no-shrink"][..], &command].concat();
        let mut command = Command::new(SLABYARD);
        let mut child = command.args(args).stderr(Stdio::null()).process_group(0).spawn().unwrap();
        until("the command runs", || fs::exists(&ready).unwrap());
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id().cast_signed()), signal)
            .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
        fs::remove_file(&file).unwrap();
        fs::remove_file(&ready).unwrap();
    }
}

/// Who shrinks caches meanwhile changes what CPUs and lists hold, and leaves no event: it is in the
/// file, and a replay and whatever changes traces keep it.
#[test]
fn a_shrink_by_others_is_recorded_and_replayed() {
    let Some(room) = room() else { return };
    let file = path(&room, "shrunk.slabtrace");
    let shrink = format!("{SLABYARD} shrink kernel dentry >/dev/null 2>&1; {SOME_LOAD}");
    let output = slabyard(&["record", "-o", &file, "--kernel", "--", "sh", "-c", &shrink]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let told = text(&output.stderr);
    assert!(told.contains("others shrank caches ") && !told.contains("too fast"), "{told}");
    let shrinks = |file: &str| {
        let info = parsed(&slabyard(&["trace", "info", file, "--json"]), 0);
        assert!(info["holds"].to_string().contains(r#""shrink","#), "{info}");
        info["shrinks"].as_u64().unwrap()
    };
    // Other tests shrink the kernel's caches as well.
    assert!(shrinks(&file) > 0);
    let copy = path(&room, "public.slabtrace");
    ends(&slabyard(&["trace", "anonymise", &file, "-o", &copy]), 0, "");
    assert_eq!(shrinks(&copy), shrinks(&file));
    let part = path(&room, "part.slabtrace");
    ends(&slabyard(&["trace", "cut", &file, "-o", &part, "--from", "0", "--to", "9999"]), 0, "");
    assert_eq!(shrinks(&part), shrinks(&file));
    let replayed = slabyard(&["replay", &file]);
    assert!(text(&replayed.stderr).contains("the replay shrinks them too"), "{replayed:?}");
}

fn is_dead(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

#[test]
fn without_root_it_offers_the_command() {
    let Some(room) = room() else { return };
    let file = path(&room, "load.slabtrace");
    let mut command = Command::new(SLABYARD);
    command.args(["record", "-o", &file, "--kernel", "--", "make", "-j8", "a b"]).uid(65534);
    let Ok(output) = command.output() else { return };
    ends(&output, 3, "takes root: sudo slabyard record -o");
    assert!(text(&output.stderr).contains("--kernel -- make -j8 'a b'"));
}

/// A program on Slabyard, where its libraries are built beside the command.
#[test]
fn a_program_is_recorded_and_replays_on_every_engine() {
    let beside = |name: &str| Path::new(SLABYARD).with_file_name(name).is_file();
    if !["libslabyard_malloc.so", "libslabyard_recorder.so"].iter().all(|name| beside(name)) {
        skip("recording a program: its libraries are not built");
        return;
    }
    let room = TempDir::new().unwrap();
    let file = path(&room, "ls.slabtrace");
    let output =
        slabyard(&["record", "-o", &file, "--", "sh", "-c", "ls -lR /etc >/dev/null; exit 3"]);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("bytes an event") && !told.contains("lost"), "{told}");
    let output = slabyard(&["record", "-o", &file, "--", "ls", "-lR", "/usr/lib"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stdout.len() > 1000, "what it prints is its own");
    let info = parsed(&slabyard(&["trace", "info", &file, "--json"]), 0);
    assert_eq!(info["holds"].to_string(), r#"["malloc","recording"]"#);
    let count = |kind: &str| info["kinds"][kind].as_u64().unwrap();
    assert!(count("kmalloc") > 1000 && count("kfree") > 100, "{info}");
    let sites = info["kmalloc_sites"].as_array().unwrap();
    assert!(sites.iter().any(|site| site["name"].as_str().unwrap().contains("+0x")), "{info}");

    for engine in ["slub", "slab", "tiny"] {
        let args = ["replay", &file, "--engine", engine, "--json"];
        let replayed = parsed(&slabyard(&args), 0);
        let slabs = |cache: &serde_json::Value| cache["allocated"].as_u64().unwrap_or(0);
        let caches = replayed["caches"].as_array().unwrap();
        let of_malloc = |cache: &&serde_json::Value| {
            cache["name"].as_str().is_some_and(|n| n.starts_with("malloc-"))
        };
        assert!(
            caches.iter().filter(of_malloc).map(slabs).sum::<u64>() > 5,
            "{engine}: {replayed}"
        );
    }
    ends(&slabyard(&["replay", &file, "--engine", "slob"]), 0, "");
    ends(&slabyard(&["replay", &file, "--check"]), 2, "this trace has none");
}

#[test]
fn what_does_not_go_together_is_usage() {
    for args in [
        &["record"][..],
        &["record", "-o", "x"],
        &["record", "-o", "x", "--kernel", "--duration", "0"],
        &["record", "-o", "x", "--kernel", "--max-size", "much"],
        &["record", "--restore", "--kernel"],
        &["record", "--guard", "../../etc"],
    ] {
        assert_eq!(slabyard(args).status.code(), Some(2), "{args:?}");
    }
    let room = TempDir::new().unwrap();
    let args = ["record", "-o", &path(&room, "x"), "--kernel", "--", "/no/such/program"];
    if self::room().is_some() {
        ends(&slabyard(&args), 127, "No such file");
    }
}
