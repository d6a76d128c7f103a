//! `-` in place of a file name means standard input or output, or is rejected; it is never a file
//! of that name.

use crate::looking::saved;
use crate::stage::{SLABYARD, piped, text};
use crate::traces::{Files, ends, tiny};
use slabyard_lab::trace;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A command in the directory of the files, which must not get one of the name `-`.
fn within(files: &Files, args: &[&str]) -> Output {
    let output = Command::new(SLABYARD).args(args).current_dir(files.path("")).output().unwrap();
    assert!(!Path::new(&files.path("-")).exists(), "{args:?}");
    output
}

#[test]
fn every_command_that_looks_reads_a_snapshot_from_standard_input() {
    let (_directory, path) = saved();
    let file = path.to_str().unwrap();
    let bytes = fs::read(file).unwrap();
    for (command, args) in [
        ("list", &["--csv"][..]),
        ("show", &["malloc-64"]),
        ("export", &[]),
        ("snapshot", &["-o", "-"]),
    ] {
        let with = |source| piped(&[&[command, source], args].concat(), &bytes);
        let (from_file, from_input) = (with(file), with("-"));
        ends(&from_input, 0, "");
        assert!(!from_input.stdout.is_empty() && from_input.stdout == from_file.stdout);
        for damaged in [&b""[..], &bytes[..bytes.len() / 2], b"\x7fELF"] {
            let output = piped(&[&[command, "-"], args].concat(), damaged);
            ends(&output, 3, "standard input is ");
        }
    }
    ends(&piped(&["diff", "-", file], &bytes), 0, "");
    ends(&piped(&["diff", file, "-"], &bytes), 0, "");
    ends(&piped(&["list", "-", "nosuch"], &bytes), 3, "`slabyard list -` names them");
    let kernel = tiny();
    let start = kernel.path("load.before.json");
    let against = piped(&["geometry", "--against", &start], b"");
    let output = piped(&["geometry", "--against", "-"], &fs::read(&start).unwrap());
    assert_eq!((output.status.code(), &output.stdout), (Some(0), &against.stdout));
}

#[test]
fn standard_input_is_refused_where_it_cannot_be_meant() {
    let (_directory, path) = saved();
    let bytes = fs::read(path).unwrap();
    for (args, code, words) in [
        (&["diff", "-", "-"][..], 2, "standard input is one of the two, not both"),
        (&["export", "-", "--listen", "0"], 2, "standard input can be read only once"),
        (&["top", "-"], 2, "standard input does not change"),
        (&["shrink", "-"], 3, "standard input cannot be shrunk"),
        (&["set", "-", "malloc-64", "barn_full=1"], 3, "standard input cannot be set"),
    ] {
        ends(&piped(args, &bytes), code, words);
    }
}

#[test]
fn what_is_written_to_standard_output_is_no_file() {
    let files = tiny();
    let to = files.path("whole.slabtrace");
    ends(&files.replay(&["--convert", &to]), 0, "");
    let output = within(&files, &["replay", "load.slabtrace", "--convert", "-"]);
    ends(&output, 0, "129 events in ");
    assert!(output.stdout == fs::read(&to).unwrap(), "the trace alone");
    fs::write(&to, &output.stdout).unwrap();
    assert_eq!(trace::open(Path::new(&to)).unwrap().events.len(), 129);
    // The same by a pipe on both sides.
    let start = files.path("load.before.json");
    let args = ["replay", "-", "--start", &start, "--convert", "-"];
    assert_eq!(piped(&args, &fs::read(files.trace()).unwrap()).stdout, output.stdout);
    let output = within(&files, &["snapshot", "load.before.json", "-o", "-"]);
    assert!(text(&output.stdout).starts_with("{\"format\":"));
}

#[test]
fn standard_output_is_refused_where_it_has_something_else() {
    let files = tiny();
    let output = within(&files, &["replay", "load.slabtrace", "--save", "-"]);
    ends(&output, 2, "standard output has the report");
    let output = within(&files, &["run", "--report-file", "-", "--", "true"]);
    ends(&output, 2, "standard output is the program's");
}
