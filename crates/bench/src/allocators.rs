//! The allocators measured, the programs that they are measured with, and how
//! a program is started on an allocator.
//!
//! Neighbours: `build/main.rs` makes what is embedded here; `peers` adds the
//! allocators that only `compare` measures; `worker` checks that the preload
//! took effect.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tempfile::TempDir;

use crate::worker::Worker;

const LIBRARY: &str = "libslabyard_malloc.so";
const LOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/load"));
const HELLO: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hello"));
const REST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rest"));
const LATENCY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/latency"));
const LAUNCH: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launch"));
const LIFE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/life"));
const BURST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/burst"));
const MIMALLOC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libmimalloc.so"));
const JSON_ROUNDS: &[u8] = include_bytes!("../loads/json_rounds.py");

/// Places in every table of results: the order of [`Bench::allocators`].
pub const OURS: usize = 0;
/// The fastest peer.
pub const MIMALLOC_AT: usize = 1;
/// The C library, without a preload.
pub const GLIBC: usize = 2;

/// Name of an earlier build of ours, where it is measured beside this one.
pub const EARLIER: &str = "earlier";

/// One allocator.
#[derive(Clone, Serialize)]
pub struct Allocator {
    /// Name in tables and JSON.
    pub name: &'static str,
    /// The library to preload; none for the C library.
    #[serde(skip)]
    pub preload: Option<PathBuf>,
    /// A variable that it is run with, and its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setting: Option<(&'static str, &'static str)>,
    /// What the allocator says of itself, as far as it does.
    pub version: String,
    /// The switches that it was built with, where `build/` built it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub flags: &'static str,
}

impl Allocator {
    /// `program`, to be run on this allocator and on no other's settings.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = without_settings(program);
        if let Some(library) = &self.preload {
            command.env("LD_PRELOAD", library);
        }
        command.envs(self.setting);
        command
    }
}

/// Prefixes of the variables that change what an allocator, or a program that
/// is measured, does. Ours are kept: `machine` reports them.
const SETTINGS: [&str; 7] =
    ["LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_", "MIMALLOC_", "SNMALLOC_", "TCMALLOC_", "PYTHON"];

/// `program`, to be run on the C library and on no allocator's settings.
pub fn without_settings(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if SETTINGS.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// The programs, unpacked for as long as this lives, and the allocators.
pub struct Bench {
    directory: TempDir,
    /// Ours, mimalloc, glibc: see [`OURS`].
    pub allocators: Vec<Allocator>,
}

impl Bench {
    /// Unpacks, finds our library, and asks each allocator for its version.
    pub fn open(ours: Option<&Path>) -> Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("slabyard-bench-")
            .tempdir()
            .context("directory for the load programs")?;
        let bench = Self { directory, allocators: Vec::new() };
        bench.unpack("load", LOAD)?;
        bench.unpack("hello", HELLO)?;
        bench.unpack("burst", BURST)?;
        bench.unpack("rest", REST)?;
        bench.unpack("latency", LATENCY)?;
        bench.unpack("launch", LAUNCH)?;
        bench.unpack("life", LIFE)?;
        bench.unpack("json_rounds.py", JSON_ROUNDS)?;
        let mimalloc = bench.unpack("libmimalloc.so", MIMALLOC)?;
        let ours = match ours {
            Some(name) if name.as_os_str() == "mimalloc" => mimalloc.clone(),
            Some(path) => existing(path)?,
            None => existing(&beside_this_program()?)?,
        };
        bench.with_versions([("ours", Some(ours)), ("mimalloc", Some(mimalloc)), ("glibc", None)])
    }

    /// Writes an embedded file to where programs are run from.
    pub fn unpack(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.program(name);
        File::options()
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(&path)
            .and_then(|mut file| file.write_all(bytes))
            .with_context(|| path.display().to_string())?;
        Ok(path)
    }

    /// Path of an unpacked program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
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
            Allocator { name, preload, setting: None, version: String::new(), flags };
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

fn beside_this_program() -> Result<PathBuf> {
    let program = std::env::current_exe().context("the place of this program")?;
    Ok(program.with_file_name(LIBRARY))
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

/// FNV-1a.
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A version that an allocator tells, without the name that stands beside it
/// in any case.
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
