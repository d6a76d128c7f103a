//! `watch`: what it writes, how it ends, and what other commands make of the file.

use crate::stage::{SLABYARD, text};
use crate::top::{Program, has_kernel};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value as Json;
use slabyard_observe::snapshot::{Source, SourceKind};
use slabyard_observe::timeline::{Timeline, Writer};
use slabyard_observe::{Cache, Snapshot, Value};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Nothing here takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

fn slabyard(arguments: &[&str]) -> Output {
    Command::new(SLABYARD).args(arguments).output().unwrap()
}

/// A watch of the kernel, ten looks a second, until it is ended.
fn watch(file: &Path) -> Child {
    Command::new(SLABYARD)
        .args(["watch", "kernel", "--interval", "0.1", "-o"])
        .arg(file)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn looks(file: &Path) -> usize {
    Timeline::open(file).map_or(0, |timeline| timeline.len())
}

fn wait_for_looks(file: &Path, wanted: usize) {
    let began = Instant::now();
    while looks(file) < wanted {
        assert!(began.elapsed() < PATIENCE, "{} looks", looks(file));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A place for a timeline of the kernel.
fn place() -> Option<(TempDir, PathBuf)> {
    if !has_kernel() {
        return None;
    }
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("day.timeline");
    Some((directory, file))
}

#[test]
fn a_signal_ends_it_and_all_looks_are_there() {
    let Some((_kept, file)) = place() else { return };
    for (signal, least) in [(Signal::SIGTERM, 3), (Signal::SIGINT, 6)] {
        let child = watch(&file);
        wait_for_looks(&file, least);
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = format!("has {} looks", looks(&file));
        assert!(text(&output.stderr).contains(&said), "{}", text(&output.stderr));
    }
    let timeline = Timeline::open(&file).unwrap();
    assert_eq!(timeline.incomplete_bytes(), 0);
    assert!(timeline.looks().all(|look| look.is_ok_and(|look| !look.caches.is_empty())));
}

#[test]
fn a_killed_one_goes_on_behind_its_last_look() {
    let Some((_kept, file)) = place() else { return };
    for round in 1..=3 {
        let before = looks(&file);
        let mut child = watch(&file);
        wait_for_looks(&file, before + 2);
        child.kill().unwrap();
        child.wait().unwrap();
        // As if it was killed in a write.
        let mut bytes = fs::read(&file).unwrap();
        bytes.truncate(bytes.len() - round);
        fs::write(&file, bytes).unwrap();
    }
    let complete = looks(&file);
    let last = slabyard(&["watch", "--looks", "1", "-o", file.to_str().unwrap()]);
    assert!(last.status.success(), "{}", text(&last.stderr));
    assert_eq!(looks(&file), complete + 1);
    assert!(Timeline::open(&file).unwrap().looks().all(|look| look.is_ok()));
}

#[test]
fn the_end_of_a_process_ends_its_watch() {
    let Some((_kept, file)) = place() else { return };
    let Some(program) = Program::start() else { return };
    let child = Command::new(SLABYARD)
        .args(["watch", &program.0.id().to_string(), "--interval", "0.1", "-o"])
        .arg(&file)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_looks(&file, 2);
    drop(program);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("ended"), "{}", text(&output.stderr));
    let kernel = slabyard(&["watch", "kernel", "-o", file.to_str().unwrap()]);
    assert_eq!(kernel.status.code(), Some(3));
    assert!(text(&kernel.stderr).contains("goes on with these alone"), "{}", text(&kernel.stderr));
}

#[test]
fn other_commands_take_the_file() {
    let Some((_kept, file)) = place() else { return };
    let name = file.to_str().unwrap();
    let done = slabyard(&["watch", "--interval", "0.1", "--looks", "3", "-o", name]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let nr_looks = looks(&file);
    assert_eq!(nr_looks, 3);
    let json: Json = serde_json::from_slice(&slabyard(&["list", name, "--json"]).stdout).unwrap();
    let timeline = Timeline::open(&file).unwrap();
    let last = timeline.look(nr_looks - 1).unwrap();
    assert_eq!(json["caches"].as_array().unwrap().len(), last.caches.len());
    let first = slabyard(&["diff", &format!("{name}#1"), name, "--json"]);
    assert!(matches!(first.status.code(), Some(0 | 1)), "{}", text(&first.stderr));
    let page = file.with_extension("html");
    let over = ["list", name, "--over-time", "--json", "--html", page.to_str().unwrap()];
    let over: Json = serde_json::from_slice(&slabyard(&over).stdout).unwrap();
    assert_eq!(over["seconds"].as_array().unwrap().len(), nr_looks);
    let dentry = |json: &Json| {
        let caches = json["caches"].as_array().unwrap();
        caches.iter().find(|cache| cache["name"] == "dentry").cloned()
    };
    if let (Some(curve), Some(cache)) = (dentry(&over), dentry(&json)) {
        assert_eq!(curve["bytes"][nr_looks - 1], cache["bytes"]);
    }
    assert!(fs::read_to_string(page).unwrap().contains("<canvas"));
    let table = slabyard(&["list", name, "--over-time"]);
    assert!(text(&table.stdout).starts_with("3 looks, from "), "{}", text(&table.stdout));
}

#[test]
fn the_first_end_of_several_ends_it() {
    let Some((_kept, file)) = place() else { return };
    let name = file.to_str().unwrap();
    for (length, nr, after) in [("1h", "2", 2), ("0.1", "1000", 3)] {
        let ends = ["--interval", "0.1", "--for", length, "--looks", nr];
        let done = slabyard(&[&["watch", "-o", name][..], &ends].concat());
        assert!(done.status.success(), "{}", text(&done.stderr));
        assert_eq!(looks(&file), after, "{length} {nr}");
    }
    let one = file.with_extension("one");
    let done = slabyard(&["watch", "--looks", "1", "-o", one.to_str().unwrap()]);
    assert!(text(&done.stderr).contains("has 1 look,"), "{}", text(&done.stderr));
    let list = slabyard(&["list", one.to_str().unwrap(), "--over-time"]);
    assert!(text(&list.stdout).starts_with("1 look, from "), "{}", text(&list.stdout));
}

#[test]
fn what_cannot_be_watched_is_refused_and_nothing_is_lost() {
    let Some((kept, file)) = place() else { return };
    let other = kept.path().join("other");
    fs::write(&other, "mine").unwrap();
    let other = other.to_str().unwrap();
    for (arguments, code, words) in [
        (&["watch", "-o", other][..], 3, "is no timeline"),
        (&["watch", other, "-o", "x"], 2, "does not change"),
        (&["watch", "-", "-o", "x"], 2, "does not change"),
        (&["watch", "-o", "-"], 2, "-o"),
        (&["watch"], 2, "--output"),
        (&["watch", "-o", "x", "--interval", "0"], 2, "expected a time"),
        (&["watch", "-o", "x", "--looks", "0"], 2, "--looks"),
        (&["watch", "-o", "x", "--max-size", "1K"], 2, "256K at least"),
        (&["watch", "-o", "/proc/nowhere/x"], 3, "cannot write"),
        (&["watch", "-o", "/dev/full"], 3, "/dev/full"),
        (&["watch", "4294967294", "-o", "x"], 3, "4294967294"),
        (&["list", other, "--over-time"], 2, "`slabyard watch`"),
    ] {
        let output =
            Command::new(SLABYARD).args(arguments).current_dir(kept.path()).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert!(!kept.path().join("x").exists(), "{arguments:?}");
    }
    assert_eq!(fs::read_to_string(other).unwrap(), "mine");
    let mut first = watch(&file);
    wait_for_looks(&file, 1);
    let second = slabyard(&["watch", "-o", file.to_str().unwrap()]);
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(second.status.code(), Some(3));
    assert!(text(&second.stderr).contains("another process"), "{}", text(&second.stderr));
}

/// Hours of a kernel whose `kmalloc-64` grows by so many slabs a look, beside a cache that was filled
/// once.
fn hours(file: &Path, slabs_a_look: u64) {
    let mut source = Source::of(SourceKind::Kernel);
    source.release = Some("6.18".into());
    let mut writer = Writer::open(file, 20 << 20, &source).unwrap();
    for nth in 0..60 {
        let mut look = Snapshot::new(source.clone());
        look.taken_at_ms = 1_700_000_000_000 + nth * 300_000;
        look.machine.page_bytes = Some(4096);
        look.totals.insert("mem_total".into(), Value::Exact(8 << 30));
        let mut total = 0;
        for (name, slabs) in [
            ("kmalloc-64", 1000 + nth * slabs_a_look),
            ("vm_area_struct", if nth < 10 { 100 } else { 9000 }),
        ] {
            let mut cache = Cache::new(name);
            for (key, value) in [
                ("order", 0),
                ("objs_per_slab", 64),
                ("slab_size", 64),
                ("object_size", 64),
                ("slabs", slabs),
                ("total_objects", slabs * 64),
                ("objects", slabs * 64),
            ] {
                cache.set(key, value);
            }
            total += slabs * 4096;
            look.caches.push(cache);
        }
        look.totals.insert("slab".into(), Value::Exact(total));
        writer.push(&look).unwrap();
    }
}

#[test]
fn curves_need_a_timeline_with_a_look() {
    let directory = TempDir::new().unwrap();
    let place = |name: &str| directory.path().join(name);
    let file = place("hours.timeline");
    hours(&file, 500);
    drop(Writer::open(&place("empty"), 1 << 20, &Source::of(SourceKind::Kernel)).unwrap());
    let mut bytes = fs::read(&file).unwrap();
    // In the packed bytes of the first look, behind the line and a header.
    bytes[20 + 24 + 9] ^= 0x40;
    fs::write(place("damaged"), &bytes).unwrap();
    for (arguments, code, words) in [
        (&["hours.timeline#3"][..], 2, "leave out what is behind #"),
        (&["nothing"], 3, "cannot read nothing"),
        (&["empty"], 3, "empty has no look yet"),
        (&["damaged"], 3, "damaged is damaged: look 1 of 60"),
        (&["hours.timeline", "dentry"], 3, "no cache named `dentry`"),
        (&["hours.timeline", "kmalloc-*"], 0, ""),
    ] {
        let mut command = Command::new(SLABYARD);
        command.arg("list").args(arguments).arg("--over-time").current_dir(directory.path());
        let output = command.output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}

#[test]
fn the_doctor_sees_growth_over_hours() {
    for (slabs_a_look, code) in [(500, 1), (0, 0)] {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("hours.timeline");
        hours(&file, slabs_a_look);
        let output = slabyard(&["doctor", file.to_str().unwrap(), "--json"]);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        let said: Json = serde_json::from_slice(&output.stdout).unwrap();
        let found: Vec<&Json> = said["findings"].as_array().unwrap().iter().collect();
        assert_eq!(found.len(), usize::from(code == 1), "{said:#}");
        if let [growth] = found[..] {
            assert_eq!(
                (&growth["id"], &growth["caches"][0]),
                (&"kernel.growth".into(), &"kmalloc-64".into())
            );
        }
    }
}
