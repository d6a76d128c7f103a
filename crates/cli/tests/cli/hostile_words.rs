//! Files of strangers, whose names and values have what steers a terminal: whatever the command prints
//! of them, results and errors, nothing of that arrives.

use crate::stage::{SLABYARD, piped};
use crate::traces::{Files, load, snapshot};
use slabyard_lab::event::{Event, EventKind};
use slabyard_lab::trace::{Names, Trace};
use std::process::{Command, Output};

/// The title of a window, colours, the cursor's place, a sequence of one byte (C1), the end of a line.
const STEERS: &str = "\x1b]0;x\x07\x1b[2J\u{9b}31m\r\nroot#\t\x7f";

const SLABINFO: &str = "slabinfo - version: 2.1
# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables <limit> \
<batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>
evil\x1b[2J\u{9b}31m 1 2 3 4 5 : tunables 0 0 0 : slabdata 1 1 0
";

const OOM: &str = "[ 1.0] evil\x1b[2J\u{9b}31m\r invoked oom-killer: gfp_mask=0x0
[ 1.0] Unreclaimable slab info:
[ 1.0] Name                      Used          Total
[ 1.0] evil\x1b[2J             2048KB       4096KB
";

/// What a terminal acts on; the ends of lines are the command's own, unless such a word has one.
fn steering(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let found = text.lines().find(|line| line.chars().any(char::is_control));
    found
        .or_else(|| text.lines().find(|line| line.starts_with("root#")))
        .map(|line| format!("{line:?}"))
}

#[track_caller]
fn is_tame(said: &str, output: &Output) {
    for (stream, bytes) in [("output", &output.stdout), ("errors", &output.stderr)] {
        if let Some(line) = steering(bytes) {
            panic!("{said}: the {stream} have {line}");
        }
    }
    assert!(output.status.code().is_some_and(|code| code != 101), "{said}: {:?}", output.status);
    assert!(!output.stdout.is_empty() || !output.stderr.is_empty(), "{said}: nothing was said");
}

fn slabyard(args: &[&str]) -> Output {
    Command::new(SLABYARD).args(args).output().unwrap()
}

/// A trace with such a word at the end of each name, of its kernel and of its recorder.
fn trace() -> Trace {
    let mut trace = load(3, 21);
    let mut names = Names::new();
    let (filp, site) =
        (names.intern(&format!("filp{STEERS}")), names.intern(&format!("site{STEERS}")));
    for event in &mut trace.events {
        let of_cache = event.kind.names_cache();
        let site = if event.kind == EventKind::CacheAlloc { site } else { 0 };
        *event = Event { name: if of_cache { filp } else { 0 }, site, ..*event };
    }
    // Some stay.
    trace.events.truncate(80);
    trace.names = names;
    trace.header.release += STEERS;
    trace.header.source += STEERS;
    trace
}

/// What a snapshot of such a kernel says.
fn snapshot_text() -> String {
    let word = serde_json::to_string(STEERS).unwrap();
    let word = word.trim_matches('"');
    let text = snapshot().to_string();
    text.replace("filp", &format!("filp{word}")).replace("6.12.1", &format!("6.12.1{word}"))
}

#[test]
fn a_trace_of_strangers_steers_no_terminal() {
    let files = Files::new(&trace());
    files.put("load.before.json", snapshot_text().as_bytes());
    let plain = Files::new(&trace());
    for at in [files.trace(), plain.trace()] {
        for args in [
            &["trace", "info", &at][..],
            &["trace", "leaks", "--all", &at],
            &["trace", "leaks", "--all", "--csv", &at],
            &["trace", "leaks", "--all", "--json", &at],
            &["trace", "cut", &at, "-o", &files.path("cut.slabtrace"), "--caches", "dentry"],
            &["replay", &at],
            &["replay", &at, "--json"],
            &["replay", &at, "--csv"],
            &["replay", &at, "--release", "7.3", "--set", "filp.order=1"],
            &["ask", &at, "release=6.12,7.3"],
            &["boot", &files.path("load.before.json"), "--set", "max_order=0"],
        ] {
            is_tame(&args.join(" "), &slabyard(args));
        }
    }
}

#[test]
fn a_snapshot_of_strangers_steers_no_terminal() {
    let files = Files::new(&load(1, 1));
    let texts: [(&str, String); 8] = [
        ("kernel.json", snapshot_text()),
        ("slabinfo", SLABINFO.into()),
        ("line", format!("slabinfo - version: 2.1\n# name <active_objs>\n{STEERS}\n")),
        ("meminfo", format!("MemTotal: 1 kB\nSlab: 3 kB\nSUnreclaim: {STEERS} kB\n")),
        ("oom", OOM.into()),
        ("object", r#"{"kernel\u001b[2J": 1, "slabyard": "\u001b[2J"}"#.into()),
        (
            "rollup",
            format!("7f0000000000-7f0000001000 rw-p 00000000 00:00 0 {STEERS}\nRss: 4 kB\n"),
        ),
        ("settings", format!("{STEERS}=1\n")),
    ];
    for (name, text) in texts {
        let at = files.put(name, text.as_bytes());
        for args in [
            &["list", &at][..],
            &["list", &at, "--csv"],
            &["list", &at, "--json"],
            &["show", &at, "filp"],
            &["diff", &at, &at],
            &["doctor", &at],
            &["doctor", &at, "--json"],
            &["export", &at],
            &["boot", &at, "--set", "max_order=0"],
            &["replay", &at],
            &["trace", "info", &at],
            &["geometry", "--check", &at],
        ] {
            is_tame(&format!("{name}: {}", args.join(" ")), &slabyard(args));
        }
        is_tame(&format!("{name} as input"), &piped(&["list", "-"], text.as_bytes()));
    }
}

#[test]
fn what_steers_a_terminal_is_found() {
    assert_eq!(steering(b"plain\nwords \xe2\x80\x94 and a table\n"), None);
    for text in ["a\x1b[2J", "\u{9b}31m", "a\rb", "\x7f", "root# rm"] {
        assert!(steering(text.as_bytes()).is_some(), "{text:?}");
    }
}
