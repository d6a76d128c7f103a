//! Finds the library to preload, without configuration: the default one, or the one with all
//! engines.
//!
//! The library is sought next to the command (a build tree), and in the `lib` directories of the
//! prefix that holds the command (an unpacked archive, a distribution's package); where it is in none
//! of them, [`super::carried`] has it in an installation by cargo. `SLABYARD_LIB` overrides the search.

use super::carried;
use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const ENV: &str = "SLABYARD_LIB";

/// One library: its file, and the package that builds it.
struct Library {
    file: &'static str,
    package: &'static str,
}

const MALLOC: Library = Library { file: "libslabyard_malloc.so", package: "slabyard-malloc" };
const RECORDER: Library = Library { file: "libslabyard_recorder.so", package: "slabyard-recorder" };
const ENGINES: Library = Library { file: "libslabyard_engines.so", package: "slabyard-engines" };

/// The absolute path of the library that holds all engines, or of the one that people use.
pub fn find(all_engines: bool) -> anyhow::Result<PathBuf> {
    let library = if all_engines { ENGINES } else { MALLOC };
    if let Some(named) = std::env::var_os(ENV).filter(|v| !v.is_empty()) {
        return from_env(&named);
    }
    beside_us(&library)
}

/// The absolute path of the library that tells a recorder of a program's calls.
pub fn recorder() -> anyhow::Result<PathBuf> {
    beside_us(&RECORDER)
}

fn beside_us(library: &Library) -> anyhow::Result<PathBuf> {
    let Library { file, package } = library;
    let exe = std::env::current_exe().context("cannot tell where this command is")?;
    let places = places(&exe, file);
    if let Some(found) = places.iter().find(|p| p.is_file()) {
        return Ok(found.clone());
    }
    if let Some(carried) = carried::write(file) {
        return carried;
    }
    let tried: String = places.iter().map(|p| format!("\n  {}", p.display())).collect();
    bail!(
        "{file} not found; install the package that has it (libslabyard-malloc on Debian), build it in \
         the source tree (cargo build -p {package} --release), or name it in {ENV}; tried:{tried}"
    )
}

/// True for a library of ours, by its file's name.
pub fn is_ours(path: &Path) -> bool {
    [MALLOC, ENGINES, RECORDER].iter().any(|ours| path.file_name() == Some(ours.file.as_ref()))
}

/// True for a file of the library that holds all engines.
pub fn holds_all_engines(path: &Path) -> bool {
    path.file_name() == Some(ENGINES.file.as_ref())
}

fn from_env(named: &OsStr) -> anyhow::Result<PathBuf> {
    // The program may change its directory and then start others.
    let path = std::path::absolute(named).with_context(|| format!("{ENV}={}", named.display()))?;
    if !path.is_file() {
        bail!("{ENV}={}: no such file", named.display());
    }
    Ok(path)
}

/// The folder of a distribution's libraries for this machine, below `lib`, as Debian names it.
const MULTIARCH: &str = match std::env::consts::ARCH.as_bytes() {
    b"x86_64" => "lib/x86_64-linux-gnu/slabyard",
    b"aarch64" => "lib/aarch64-linux-gnu/slabyard",
    b"riscv64" => "lib/riscv64-linux-gnu/slabyard",
    b"x86" => "lib/i386-linux-gnu/slabyard",
    b"arm" => "lib/arm-linux-gnueabihf/slabyard",
    _ => "lib64/slabyard",
};

/// Where the library may be, for a command that is at `exe`.
fn places(exe: &Path, file: &str) -> Vec<PathBuf> {
    let beside = exe.parent();
    let prefix = beside.and_then(Path::parent);
    let under = ["lib/slabyard", MULTIARCH, "lib", "lib64"];
    let installed = under.iter().filter_map(|d| Some(prefix?.join(d)));
    beside.map(Path::to_owned).into_iter().chain(installed).map(|d| d.join(file)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_tree_and_an_installation_are_looked_through_in_order() {
        let places = places(Path::new("/usr/bin/slabyard"), MALLOC.file);
        let want = ["bin", "lib/slabyard", MULTIARCH, "lib", "lib64"];
        let want: Vec<_> =
            want.iter().map(|d| Path::new("/usr").join(d).join(MALLOC.file)).collect();
        assert_eq!(places, want);
    }

    #[test]
    fn debian_names_a_folder_after_the_machine() {
        let dpkg =
            std::process::Command::new("dpkg-architecture").arg("-qDEB_HOST_MULTIARCH").output();
        let Ok(said) = dpkg else { return };
        let named = String::from_utf8(said.stdout).unwrap();
        assert_eq!(MULTIARCH, format!("lib/{}/slabyard", named.trim()));
    }
}
