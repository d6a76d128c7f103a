//! Builds the libraries that `slabyard run` preloads into the command, because `cargo install`
//! installs programs alone. `run/carried.rs` writes them to files.
//!
//! In a tree the libraries lie beside the command, and none is carried; nor where
//! `SLABYARD_LIBRARIES=none` says so, as for packages that have them as files, nor without
//! optimisation. Elsewhere (a registry's package, a git checkout of cargo) a cargo of its own builds
//! them: by the profile of the workspace, whose manifest is the link `workspace.toml`, and a copy in
//! a package. They are dependencies for no target, so that the lock file has them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What has a file each.
const LIBRARIES: [&str; 3] = ["malloc", "engines", "recorder"];
/// The crates that they consist of: all of this version.
const PARTS: [&str; 6] = ["kernels", "abi", "platform", "slabyard", "page-lists", "process"];

fn main() {
    for file in ["build.rs", "workspace.toml"] {
        println!("cargo::rerun-if-changed={file}");
    }
    for variable in ["SLABYARD_LIBRARIES", "DOCS_RS"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let out = PathBuf::from(variable("OUT_DIR"));
    let mut rows = String::new();
    if wanted() {
        let built = build(&out);
        for name in LIBRARIES {
            let file = format!("libslabyard_{name}.so");
            writeln!(rows, "    ({file:?}, include_bytes!({:?})),", built.join(&file)).unwrap();
        }
    }
    fs::write(out.join("carried.rs"), format!("&[\n{rows}]\n")).unwrap();
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|why| panic!("{name}: {why}"))
}

fn wanted() -> bool {
    let here = variable("CARGO_MANIFEST_DIR");
    let in_tree = Path::new(&here).join("../malloc/Cargo.toml").exists();
    match env::var("SLABYARD_LIBRARIES").as_deref() {
        Ok("none") => false,
        Ok("build") => true,
        Ok(other) => panic!("SLABYARD_LIBRARIES is {other}, and neither build nor none"),
        Err(_) => {
            let checked_out = here.contains("/git/checkouts/");
            (!in_tree || checked_out)
                && variable("OPT_LEVEL") != "0"
                && env::var_os("DOCS_RS").is_none()
        }
    }
}

/// Where the libraries are then.
fn build(out: &Path) -> PathBuf {
    let project = out.join("libraries");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("lib.rs"), "").unwrap();
    fs::write(project.join("Cargo.toml"), manifest()).unwrap();
    // What was downloaded suffices for an installation from a vendored or mirrored registry.
    if !cargo(&project, &["--offline"]) && !cargo(&project, &[]) {
        panic!(
            "the libraries that `slabyard run` preloads do not build; \
             SLABYARD_LIBRARIES=none builds the command without them"
        );
    }
    project.join("target").join(variable("TARGET")).join("release")
}

fn cargo(project: &Path, arguments: &[&str]) -> bool {
    let target = variable("TARGET");
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["build", "--release", "--target", &target]).args(arguments).current_dir(project);
    cargo.arg("--target-dir").arg(project.join("target"));
    for name in LIBRARIES {
        cargo.arg("--package").arg(format!("slabyard-{name}"));
    }
    // What checks the command's sources is for these alone.
    cargo.env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("CARGO_PRIMARY_PACKAGE");
    if variable("CARGO_CFG_TARGET_ENV") == "musl" {
        // Rust links statically there, unless it is told otherwise.
        let given = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
        let flags = given.split('\u{1f}').filter(|flag| !flag.is_empty());
        let flags: Vec<_> = flags.chain(["-Ctarget-feature=-crt-static"]).collect();
        cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    }
    cargo.status().is_ok_and(|status| status.success())
}

/// That of a project whose dependencies the libraries are, built as the workspace builds them.
fn manifest() -> String {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let version = variable("CARGO_PKG_VERSION");
    let mut text = String::from(
        "[package]\nname = \"libraries\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n\n\
         [workspace]\n\n[dependencies]\n",
    );
    let mut places = String::from("\n[patch.crates-io]\n");
    let mut in_tree = false;
    for part in LIBRARIES.into_iter().chain(PARTS) {
        let name = if part == "slabyard" { part.to_owned() } else { format!("slabyard-{part}") };
        writeln!(text, "{name} = \"={version}\"").unwrap();
        let source = here.join("..").join(part);
        if source.join("Cargo.toml").exists() {
            in_tree = true;
            writeln!(places, "{name} = {{ path = {source:?} }}").unwrap();
            println!("cargo::rerun-if-changed={}", source.display());
        }
    }
    if in_tree {
        text += &places;
    }
    let workspace = fs::read_to_string(here.join("workspace.toml")).unwrap();
    text.push('\n');
    text += &release_profile(&workspace);
    text
}

/// The tables of the release profile: of all, and of the crates that are built.
fn release_profile(workspace: &str) -> String {
    let mut text = String::new();
    let mut kept = false;
    for line in workspace.lines() {
        if line.starts_with('[') {
            let name = line.trim_matches(['[', ']']);
            let of_one = name.strip_prefix("profile.release.package.slabyard-");
            kept = name == "profile.release"
                || name == "profile.release.package.slabyard"
                || of_one.is_some_and(|part| LIBRARIES.contains(&part) || PARTS.contains(&part));
            if name == "profile.release" {
                text += "[profile.release]\nstrip = true\n";
                continue;
            }
        }
        if kept {
            text += line;
            text.push('\n');
        }
    }
    assert!(text.contains("panic = \"abort\""), "workspace.toml has no release profile");
    text
}
