//! The measured allocators and the load programs; starts a program with an allocator preloaded.
//!
//! `build/main.rs` builds the programs that this module embeds; `find` finds the allocators that
//! every suite measures.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;
use tempfile::TempDir;

const LOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/load"));
const HELLO: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hello"));
const REST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rest"));
const LATENCY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/latency"));
const LAUNCH: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launch"));
const LIFE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/life"));
const WALKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/walked"));
const HANDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/handed"));
const KERNEL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kernel"));
const BURST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/burst"));
const JSON_ROUNDS: &[u8] = include_bytes!("../loads/json_rounds.py");

/// Places in every table of results: the order of [`Bench::allocators`].
pub const OURS: usize = 0;
pub const OURS_NAME: &str = "ours";
/// The fastest peer.
pub const MIMALLOC_AT: usize = 1;
/// The C library, without a preload.
pub const GLIBC: usize = 2;

/// The program of the loads that kernel developers use, in user space.
pub const KERNEL_LOADS: &str = "kernel";

/// Name of an earlier build of ours, where it is measured beside this one.
pub const EARLIER: &str = "earlier";

/// A variable and its value.
pub type Setting = (&'static str, String);

#[derive(Clone, Serialize)]
pub struct Allocator {
    /// Name in tables and JSON.
    pub name: &'static str,
    /// The library to preload; none for the C library.
    #[serde(skip)]
    pub preload: Option<PathBuf>,
    /// Variables that it is run with, and their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Setting>,
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
        command.envs(self.environment());
        command
    }

    /// What it is run with beside its preload.
    pub fn environment(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.settings.iter().map(|(name, value)| (*name, value.as_str()))
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
    /// Unpacks the programs; `find` adds the allocators.
    pub fn unpacked() -> Result<Self> {
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
        bench.unpack("walked", WALKED)?;
        bench.unpack("handed", HANDED)?;
        bench.unpack(KERNEL_LOADS, KERNEL)?;
        bench.unpack("json_rounds.py", JSON_ROUNDS)?;
        Ok(bench)
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

    /// The program of loads that is meant: the embedded one of [`KERNEL_LOADS`], or a file.
    pub fn program_named(&self, word: &Path) -> PathBuf {
        if word.as_os_str() == KERNEL_LOADS { self.program(KERNEL_LOADS) } else { word.to_owned() }
    }

    /// Path of an unpacked program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

/// FNV-1a.
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
