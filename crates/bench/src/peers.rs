//! The peers other than mimalloc: those that `build/peers.rs` builds from their crates, and
//! gperftools' if it is installed.
//!
//! A peer that was not built, is not installed or does not run is left out with a message:
//! [`Absent`] says which and why, and every report repeats it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::allocators::{Allocator, Bench, GLIBC};

/// A row of the table that `build/peers.rs` writes.
struct Built {
    name: &'static str,
    package: &'static str,
    version: &'static str,
    flags: &'static str,
    library: Result<&'static [u8], &'static str>,
}

const BUILT: &[Built] = include!(concat!(env!("OUT_DIR"), "/peers.rs"));

/// Google's.
const TCMALLOC: &str = "tcmalloc";
const GPERFTOOLS: &str = "gperftools";
/// Where distributions put gperftools' library.
const GPERFTOOLS_PLACES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
    "/usr/lib/aarch64-linux-gnu/libtcmalloc_minimal.so.4",
    "/usr/lib64/libtcmalloc_minimal.so.4",
    "/usr/lib/libtcmalloc_minimal.so.4",
];

/// A peer that is not measured.
#[derive(Clone, Debug, Serialize)]
pub struct Absent {
    pub name: &'static str,
    /// Why it is left out.
    pub why: String,
}

/// Everybody: ours first, the C library last.
pub struct AllAllocators {
    /// Those that run.
    pub allocators: Vec<Allocator>,
    /// Those that do not.
    pub absent: Vec<Absent>,
}

/// All allocators that run here.
pub fn everybody(bench: &Bench, gperftools: Option<&Path>) -> AllAllocators {
    let mut allocators = bench.allocators.clone();
    let glibc = allocators.remove(GLIBC);
    let mut absent = Vec::new();
    let built = BUILT.iter().map(|row| (row.name, unpacked(bench, row)));
    let system = (GPERFTOOLS, installed(bench, gperftools));
    for (name, peer) in built.chain([system]) {
        match peer {
            Ok(peer) => allocators.push(peer),
            Err(error) => absent.push(Absent { name, why: format!("{error:#}") }),
        }
    }
    allocators.push(glibc);
    AllAllocators { allocators, absent }
}

fn unpacked(bench: &Bench, row: &Built) -> Result<Allocator> {
    let bytes = match row.library {
        Ok(bytes) => bytes,
        Err(why) => bail!("{why}"),
    };
    let library = bench.unpack(&format!("lib{}.so", row.name), bytes)?;
    let peer = bench.checked(row.name, Some(library))?;
    let version = format!("crate {} {}", row.package, row.version);
    // Per-CPU caches, which it is known for, need restartable sequences of its own: where the C library
    // has registered its, tcmalloc falls back to caches of threads.
    let own_rseq = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0".to_owned());
    let settings = if row.name == TCMALLOC { vec![own_rseq] } else { Vec::new() };
    Ok(Allocator { version, settings, flags: row.flags, ..peer })
}

fn installed(bench: &Bench, named: Option<&Path>) -> Result<Allocator> {
    let library = match named {
        Some(path) => path.to_owned(),
        None => {
            GPERFTOOLS_PLACES.iter().map(PathBuf::from).find(|path| path.exists()).context(
                "not installed (Debian: libtcmalloc-minimal4), nor named with --gperftools",
            )?
        }
    };
    let library = fs::canonicalize(&library).with_context(|| library.display().to_string())?;
    bench.checked(GPERFTOOLS, Some(library))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench() -> Bench {
        Bench::open(Some(Path::new("mimalloc"))).unwrap()
    }

    #[test]
    fn everybody_is_measured_or_named() {
        let everybody = everybody(&bench(), None);
        let names: Vec<&str> = everybody.allocators.iter().map(|a| a.name).collect();
        assert_eq!((names[0], names[names.len() - 1]), ("ours", "glibc"));
        for name in ["mimalloc", "snmalloc", "jemalloc", "rpmalloc", "tcmalloc", "gperftools"] {
            let absent = everybody.absent.iter().find(|absent| absent.name == name);
            let reason = absent.is_some_and(|absent| !absent.why.is_empty());
            assert!(names.contains(&name) != reason, "{name}: {:?}", everybody.absent);
        }
    }

    #[cfg(feature = "peers")]
    #[test]
    fn built_peers_run_and_tell_their_crate_and_switches() {
        let everybody = everybody(&bench(), None);
        for row in BUILT {
            let peer = everybody.allocators.iter().find(|a| a.name == row.name);
            let peer = peer.unwrap_or_else(|| panic!("{}: {:?}", row.name, everybody.absent));
            assert!(peer.version.contains(row.package), "{}", peer.version);
            assert!(!peer.flags.is_empty() && !row.version.is_empty());
        }
    }

    #[test]
    fn peer_that_was_not_built_or_does_not_load_is_an_error_with_its_reason() {
        let bench = bench();
        let row = |name, library| Built { name, package: "p", version: "1", flags: "", library };
        let error = unpacked(&bench, &row("unbuilt", Err("no compiler"))).err().unwrap();
        assert_eq!(error.to_string(), "no compiler");
        // The loader warns of a file that is no library, and goes on without.
        let error = unpacked(&bench, &row("broken", Ok(b"no library"))).err().unwrap();
        let text = format!("{error:#}");
        assert!(text.contains("broken") && text.contains("malloc comes from"), "{text}");
    }

    #[test]
    fn gperftools_that_is_not_there_is_named() {
        let absent = everybody(&bench(), Some(Path::new("/nowhere.so"))).absent;
        let gperftools = absent.iter().find(|absent| absent.name == GPERFTOOLS).unwrap();
        assert!(gperftools.why.contains("/nowhere.so"), "{}", gperftools.why);
    }
}
