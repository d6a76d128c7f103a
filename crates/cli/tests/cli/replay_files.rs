//! `slabyard replay`: where traces and snapshots are read from and written to.

use crate::stage::{SLABYARD, piped, text};
use crate::traces::{OBJECTS, csv_of, ends, load, parsed, slabyard, snapshot, tiny, zstd_of};
use serde_json::json;
use slabyard_lab::trace;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

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
fn a_saved_snapshot_of_a_kernel_is_a_start() {
    let files = tiny();
    let plain = text(&files.replay(&[]).stdout).to_owned();
    let saved = files.path("saved.json.zst");
    let script = files.path("load.before.json");
    let output = Command::new(SLABYARD).args(["snapshot", &script, "-o", &saved]).output().unwrap();
    ends(&output, 0, "");
    let output = files.replay(&["--start", &saved]);
    ends(&output, 0, "");
    assert_eq!(text(&output.stdout), plain);
    // That of a replay is none.
    let run = files.path("run.json");
    ends(&files.replay(&["--save", &run]), 0, "");
    ends(&files.replay(&["--start", &run]), 3, "it holds a replay's caches");
    ends(&slabyard(&["nosuch"]), 3, "cannot read the trace: nosuch: No such file");
    ends(&slabyard(&["nosuch", "--convert", &files.path("x")]), 3, "cannot read the trace: nosuch");
}

#[test]
fn a_trace_is_read_from_a_pipe() {
    let files = tiny();
    let start = files.path("load.before.json");
    let plain = text(&files.replay(&["--start", &start]).stdout).to_owned();
    let ours = fs::read(files.trace()).unwrap();
    let csv = csv_of(&load(3, OBJECTS)).into_bytes();
    let folded = zstd_of(&csv);
    let piped = |args: &[&str], bytes: &[u8]| piped(&[&["replay"], args].concat(), bytes);
    for bytes in [&ours, &csv, &folded] {
        for file in ["-", "/dev/stdin"] {
            let output = piped(&[file, "--start", &start], bytes);
            ends(&output, 0, "");
            assert_eq!(text(&output.stdout), plain);
        }
    }
    let snapshot = fs::read(&start).unwrap();
    let output = piped(&[&files.trace(), "--start", "-"], &snapshot);
    ends(&output, 0, "");
    assert_eq!(text(&output.stdout), plain);
    let to = files.path("piped.slabtrace");
    ends(&piped(&["-", "--start", &start, "--convert", &to], &csv), 0, "");
    assert_eq!(trace::open(Path::new(&to)).unwrap().header.source, "converted from standard input");
    ends(&piped(&["-"], &ours), 2, "nothing is beside standard input");
    ends(&piped(&["-", "--start", "-"], &ours), 2, "not both");
    ends(&piped(&["-", "--start", &start], b""), 3, "standard input: the file is empty");
    let cut = piped(&["-", "--start", &start], &ours[..ours.len() / 2]);
    ends(&cut, 3, "standard input is damaged");
}

#[test]
fn a_trace_of_a_machine_that_made_no_slab_is_replayed() {
    let files = tiny();
    let head = "t_us,cpu,pid,ev,cache_or_site,ptr,req,alloc,gfp,node,acct\n";
    let alloc = "1.5,0,1,A,filp,888000064000,192,192,cc0,-1,0\n";
    let free = "2.5,1,1,F,filp,888000064000,,,,,\n";
    for (name, events) in [
        ("calls", format!("{head}{alloc}{free}")),
        ("one-page", format!("{head}1.0,0,1,P,o0,64,,,cc0,0,\n{alloc}{free}")),
        ("a-free", format!("{head}{free}")),
    ] {
        let file = files.put("load.csv", events.as_bytes());
        let output = slabyard(&[&file, "--json"]);
        assert!(output.status.code() < Some(2), "{name}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("made next to no slab"), "{name}");
        let replayed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(replayed["source"].is_object(), "{name}: {replayed}");
    }
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
    ends(&slabyard(&[&to, "--convert", &to]), 0, "");
    assert_eq!(trace::open(Path::new(&to)).unwrap().events, old.events);
    ends(&slabyard(&[&to, "--convert", "/no/such/directory/x"]), 3, "cannot write");
    assert_eq!(fs::read_dir(files.path("")).unwrap().count(), 4, "nothing is left behind");
}

/// The snapshot of `--start`, in whichever form, goes into the file: a replay needs no other, and what
/// changes traces finds it.
#[test]
fn a_converted_trace_brings_its_snapshot() {
    let files = tiny();
    let start = files.path("load.before.json");
    let to = files.path("new.slabtrace");
    ends(&slabyard(&[&files.trace(), "--start", &start, "--convert", &to]), 0, "");
    let totals =
        |args: &[&str]| parsed(&slabyard(&[args, &["--json"]].concat()), 0)["totals"].clone();
    let wanted = totals(&[&files.trace(), "--start", &start]);
    fs::remove_file(&start).unwrap();
    ends(&slabyard(&[&files.trace()]), 2, "as --start SNAPSHOT");
    assert_eq!(totals(&[&to]), wanted);
    let copy = files.path("copy.slabtrace");
    let made = Command::new(SLABYARD).args(["trace", "anonymise", &to, "-o", &copy]).output();
    ends(&made.unwrap(), 0, "");
    assert_eq!(totals(&[&copy]), wanted);
    // What a replay starts from stands before the events: a file that is cut off has it.
    let whole = fs::read(&to).unwrap();
    files.put("cut.slabtrace", &whole[..whole.len() - 200]);
    ends(&slabyard(&[&files.path("cut.slabtrace"), "--partial"]), 0, "is damaged");
}

/// Whatever stands at the place, it stays what it is, and what it leads to gets the
/// bytes; a place where nothing can be written is left as it was, and named alone.
#[test]
fn what_is_written_goes_where_its_place_leads() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let files = tiny();
    for option in ["--convert", "--save"] {
        let at = |name: &str| files.path(&format!("{}{name}", &option[2..]));
        let write = |to: &str| files.replay(&[option, to]);
        let begins = |path: &str| fs::read(path).unwrap()[..1].to_vec();
        let (file, link, dangling) = (at("file"), at("link"), at("dangling"));
        ends(&write(&file), 0, "");
        let written = begins(&file);
        fs::write(&file, b"?").unwrap();
        // A link to a link, both by relative names.
        symlink(Path::new(&link).file_name().unwrap(), at("link2")).unwrap();
        symlink(Path::new(&file).file_name().unwrap(), &link).unwrap();
        symlink(Path::new(&at("absent")).file_name().unwrap(), &dangling).unwrap();
        for (place, behind) in [(&at("link2"), &file), (&dangling, &at("absent"))] {
            ends(&write(place), 0, "");
            assert!(fs::symlink_metadata(place).unwrap().is_symlink(), "{place}");
            assert_eq!(begins(behind), written, "{place}");
        }
        let pipe = at("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        ends(&write(&pipe), 0, "");
        assert_eq!(reader.join().unwrap()[..1], written);
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        // Nodes like /dev/null and /dev/full, where we may make them.
        for (name, minor, code) in [("null", "3", 0), ("full", "7", 3)] {
            let node = at(name);
            let made = Command::new("mknod").args([&node, "c", "1", minor]).output().unwrap();
            if made.status.success() && File::options().write(true).open(&node).is_ok() {
                ends(&write(&node), code, if code == 0 { "" } else { "cannot write" });
                assert!(fs::symlink_metadata(&node).unwrap().file_type().is_char_device());
            }
        }
        symlink("loop", files.path("loop")).unwrap_or_default();
        for place in ["/no/such/directory/x.json", &files.path("loop"), &files.path("")] {
            let output = write(place);
            ends(&output, 3, &format!("cannot write {place}: "));
            assert!(!text(&output.stderr).contains(".slabyard-"), "{}", text(&output.stderr));
        }
    }
}
