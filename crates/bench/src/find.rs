//! Finds the path and version of the allocators that every suite measures: ours, mimalloc and the C
//! library's.
//!
//! Neighbours: `worker` checks that the preload took effect; `peers` adds the
//! allocators that only `compare` measures.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::allocators::{Allocator, Bench, OURS_NAME, digest};
use crate::worker::Worker;

const LIBRARY: &str = "libslabyard_malloc.so";
pub const MIMALLOC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libmimalloc.so"));

impl Bench {
    /// Unpacks, finds our library, and asks each allocator for its version.
    pub fn open(ours: Option<&Path>) -> Result<Self> {
        let bench = Self::unpacked()?;
        let mimalloc = bench.unpack("libmimalloc.so", MIMALLOC)?;
        let ours = match ours {
            Some(name) if name.as_os_str() == "mimalloc" => mimalloc.clone(),
            Some(path) => existing(path)?,
            None => existing(&beside_this_program(LIBRARY)?)?,
        };
        bench.with_versions([
            (OURS_NAME, Some(ours)),
            ("mimalloc", Some(mimalloc)),
            ("glibc", None),
        ])
    }

    fn with_versions(mut self, found: [(&'static str, Option<PathBuf>); 3]) -> Result<Self> {
        for (name, preload) in found {
            let allocator = self.checked(name, preload)?;
            self.allocators.push(allocator);
        }
        Ok(self)
    }

    /// An allocator that a program was seen to run on.
    pub fn checked(&self, name: &'static str, preload: Option<PathBuf>) -> Result<Allocator> {
        let flags = if name == "mimalloc" { env!("PEER_FLAGS") } else { "" };
        let mut allocator =
            Allocator { name, preload, settings: Vec::new(), version: String::new(), flags };
        let worker = Worker::start(self, &allocator, "pair", &[])
            .with_context(|| format!("the {name} allocator does not run"))?;
        allocator.version = match (&allocator.preload, &worker.own_version) {
            (None, _) => worker.glibc.clone(),
            (Some(path), None) => describe(path)?,
            (Some(_), Some(version)) => readable(version),
        };
        Ok(allocator)
    }
}

/// Where cargo puts a file of the same build.
pub fn beside_this_program(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe().context("the place of this program")?;
    Ok(program.with_file_name(name))
}

pub fn existing(path: &Path) -> Result<PathBuf> {
    match fs::canonicalize(path) {
        Ok(path) => Ok(path),
        Err(error) => bail!(
            "{}: {error}; build it with `cargo build --release -p slabyard-malloc`, \
             or name it with --ours",
            path.display()
        ),
    }
}

/// Ours does not tell a version: its file's name, size and FNV-1a digest tell
/// which build was measured.
fn describe(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    let digest = digest(&bytes);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let version = env!("CARGO_PKG_VERSION");
    let size = bytes.len();
    Ok(format!("{version} ({name}, {size} bytes, {digest:016x})"))
}

/// A version that an allocator reports, without the name that is printed beside it in any case.
fn readable(version: &str) -> String {
    match version.split_once(' ') {
        Some(("mimalloc", number)) => {
            number.parse().map_or_else(|_| number.to_owned(), mimalloc_version)
        }
        Some(("jemalloc", number)) => number.to_owned(),
        _ => version.to_owned(),
    }
}

/// `mi_version()` is major, and two digits each of minor and patch.
fn mimalloc_version(number: u32) -> String {
    let (major, minor, patch) = (number / 10_000, number / 100 % 100, number % 100);
    format!("{major}.{minor}.{patch}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocators::{GLIBC, MIMALLOC_AT};

    #[test]
    fn mimalloc_version_has_three_parts() {
        assert_eq!(readable("mimalloc 30302"), "3.3.2");
        assert_eq!(readable("mimalloc 31415"), "3.14.15");
        assert_eq!(readable("jemalloc 5.3.1-0-g1"), "5.3.1-0-g1");
        assert_eq!(readable("gperftools 2.10"), "gperftools 2.10");
    }

    #[test]
    fn peer_is_preloaded_and_glibc_is_not() {
        let bench = Bench::open(Some(Path::new("mimalloc"))).unwrap();
        let mimalloc = &bench.allocators[MIMALLOC_AT];
        assert!(mimalloc.version.starts_with("3."), "{}", mimalloc.version);
        assert_ne!(bench.allocators[GLIBC].version, mimalloc.version);
    }

    #[test]
    fn missing_library_is_named_with_the_remedy() {
        let error = Bench::open(Some(Path::new("/nowhere.so"))).err().unwrap();
        let text = format!("{error:#}");
        assert!(text.contains("/nowhere.so") && text.contains("--ours"), "{text}");
    }
}
