//! Help, version, completions and manual pages. None of these needs the library.

use crate::stage::{SLABYARD, text};
use std::process::{Command, Output, Stdio};

fn slabyard(args: &[&str]) -> Output {
    Command::new(SLABYARD).args(args).output().unwrap()
}

#[test]
fn help_has_examples_and_says_what_each_number_is() {
    let help = slabyard(&["--help"]);
    assert!(help.status.success());
    assert!(text(&help.stdout).contains("slabyard run -- python3 script.py"));
    let help = slabyard(&["run", "--help"]);
    for part in ["Examples:", "decay_ms", "parked_node", "committed", "127"] {
        assert!(text(&help.stdout).contains(part), "{part}");
    }
}

#[test]
fn the_version_is_the_packages() {
    let want = format!("slabyard {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(text(&slabyard(&["--version"]).stdout), want);
}

#[test]
fn another_engine_is_refused_with_those_that_exist() {
    for engine in ["slabs", "slubb", "SLUB", ""] {
        let option = slabyard(&["run", "--engine", engine, "--", "true"]);
        let mut variable = Command::new(SLABYARD);
        variable.args(["run", "--", "true"]).env("SLABYARD_ENGINE", engine);
        for output in [option, variable.output().unwrap()] {
            assert_eq!(output.status.code(), Some(2));
            let said = text(&output.stderr);
            let says = format!("there is no engine `{engine}`: slub, tiny");
            assert!(said.contains(&says) && !said.contains("similar"), "{said}");
        }
    }
}

#[test]
fn completions_know_the_subcommand() {
    for shell in ["bash", "zsh", "fish"] {
        let output = slabyard(&["completions", shell]);
        assert!(output.status.success());
        let script = text(&output.stdout);
        let parts = ["report-file", "engine", "tiny", "compare", "warmup"];
        assert!(parts.iter().all(|part| script.contains(part)), "{shell}");
    }
}

#[test]
fn manual_pages_are_written_and_stay_out_of_the_help() {
    let directory = tempfile::TempDir::new().unwrap();
    let output = slabyard(&["man", directory.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(directory.path().join("slabyard-run.1")).unwrap();
    assert!(["decay_ms", "tiny"].iter().all(|part| page.contains(part)), "{page}");
    let page = std::fs::read_to_string(directory.path().join("slabyard-compare.1")).unwrap();
    assert!(["slow_paths", "redis", "tiny"].iter().all(|part| page.contains(part)), "{page}");
    assert!(text(&slabyard(&["man"]).stdout).contains(".TH slabyard 1"));
    assert!(!text(&slabyard(&["--help"]).stdout).contains("man "));
}

#[test]
fn a_reader_that_went_away_is_success() {
    for args in [&["completions", "bash"][..], &["man"], &["run", "--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(SLABYARD);
        let output = command.args(args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(output.stderr.is_empty(), "{args:?}: {}", text(&output.stderr));
    }
}
