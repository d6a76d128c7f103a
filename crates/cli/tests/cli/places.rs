//! The library is found without configuration.

use crate::stage::{SLABYARD, Stage, text};
use std::path::PathBuf;
use std::process::{Command, Output};

/// Not a copy: a file that was just written may still be open in a child that
/// another test is starting, and cannot be executed then.
fn link(exe: PathBuf) -> std::io::Result<()> {
    std::fs::hard_link(SLABYARD, exe)
}

fn run(stage: &Stage, exe: &str, options: &[&str]) -> Output {
    let mut command = Command::new(stage.path(exe));
    stage.surround(&mut command);
    command.env_remove("SLABYARD_LIB").arg("run").args(options).arg("--");
    command.arg(stage.program()).arg("echo $LD_PRELOAD").output().unwrap()
}

#[test]
fn beside_the_command_or_under_its_prefix() {
    let Some(stage) = Stage::new() else { return };
    for directory in ["bin", "lib/slabyard", "lib64"] {
        std::fs::create_dir_all(stage.path(directory)).unwrap();
    }
    std::fs::create_dir_all(stage.path("lib")).unwrap();
    link(stage.path("bin/slabyard")).unwrap();
    // From the last place to the first: each must win over those before.
    for directory in ["lib64", "lib", "lib/slabyard", "bin"] {
        for (options, file) in [
            (&[][..], "libslabyard_malloc.so"),
            (&["--engine", "slub"], "libslabyard_engines.so"),
            (&["--engine", "tiny"], "libslabyard_engines.so"),
            (&["--set", "count=1"], "libslabyard_engines.so"),
        ] {
            let library = stage.path(directory).join(file);
            std::fs::copy(stage.library(), &library).unwrap();
            let output = run(&stage, "bin/slabyard", options);
            assert_eq!(text(&output.stdout), format!("{}\n", library.display()));
            assert!(text(&output.stderr).contains("malloc-96"), "{directory}");
        }
    }
}

#[test]
fn without_a_library_the_message_says_what_to_do() {
    let Some(stage) = Stage::new() else { return };
    std::fs::create_dir(stage.path("bin")).unwrap();
    link(stage.path("bin/slabyard")).unwrap();
    for (options, name) in [(&[][..], "malloc"), (&["--engine", "slub"], "engines")] {
        let output = run(&stage, "bin/slabyard", options);
        assert_eq!(output.status.code(), Some(3));
        assert!(output.stdout.is_empty());
        let message = text(&output.stderr);
        let missing = format!("libslabyard_{name}.so not found");
        let build = format!("cargo build -p slabyard-{name} --release");
        for part in
            [&missing, &build, "libslabyard-malloc on Debian", "SLABYARD_LIB", "lib/slabyard"]
        {
            assert!(message.contains(part), "{message}");
        }
    }
}

#[test]
fn a_named_library_must_exist() {
    let Some(stage) = Stage::new() else { return };
    let mut command = stage.slabyard();
    command.env("SLABYARD_LIB", stage.path("none.so")).args(["run", "--", "true"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("none.so: no such file"));
}

#[test]
fn a_named_library_may_be_relative_and_the_program_may_leave() {
    let Some(stage) = Stage::new() else { return };
    std::fs::copy(stage.library(), stage.path("l.so")).unwrap();
    let mut command = stage.slabyard();
    command.env("SLABYARD_LIB", "l.so").current_dir(stage.directory.path());
    command.args(["run", "--", "sh", "-c", "cd /; sh -c 'echo $LD_PRELOAD'"]);
    let output = command.output().unwrap();
    assert_eq!(text(&output.stdout), format!("{}\n", stage.path("l.so").display()));
    assert!(!text(&output.stderr).contains("ld.so"), "{}", text(&output.stderr));
}
