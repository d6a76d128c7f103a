//! Finds the library to preload, without configuration.
//!
//! Beside the command (a build tree, an unpacked archive), or in the `lib`
//! directories of the prefix that holds it. `SLABYARD_LIB` overrides.

use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const NAME: &str = "libslabyard_malloc.so";
const ENV: &str = "SLABYARD_LIB";

/// The library's absolute path.
pub fn find() -> anyhow::Result<PathBuf> {
    if let Some(named) = std::env::var_os(ENV).filter(|v| !v.is_empty()) {
        return from_env(&named);
    }
    let exe = std::env::current_exe().context("cannot tell where this command is")?;
    let places = places(&exe);
    if let Some(found) = places.iter().find(|p| p.is_file()) {
        return Ok(found.clone());
    }
    let tried: String = places.iter().map(|p| format!("\n  {}", p.display())).collect();
    bail!(
        "{NAME} not found; build it (cargo build -p slabyard-malloc), install it beside \
         this command, or name it in {ENV}; tried:{tried}"
    )
}

fn from_env(named: &OsStr) -> anyhow::Result<PathBuf> {
    // The program may change its directory and then start others.
    let path = std::path::absolute(named).with_context(|| format!("{ENV}={}", named.display()))?;
    if !path.is_file() {
        bail!("{ENV}={}: no such file", named.display());
    }
    Ok(path)
}

/// Where the library may be, for a command that is at `exe`.
fn places(exe: &Path) -> Vec<PathBuf> {
    let beside = exe.parent();
    let prefix = beside.and_then(Path::parent);
    let under = ["lib/slabyard", "lib", "lib64"];
    let installed = under.iter().filter_map(|d| Some(prefix?.join(d)));
    beside.map(Path::to_owned).into_iter().chain(installed).map(|d| d.join(NAME)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_tree_and_an_installation_are_looked_through_in_order() {
        let places = places(Path::new("/usr/bin/slabyard"));
        let want = ["bin", "lib/slabyard", "lib", "lib64"];
        let want: Vec<_> = want.iter().map(|d| Path::new("/usr").join(d).join(NAME)).collect();
        assert_eq!(places, want);
    }
}
